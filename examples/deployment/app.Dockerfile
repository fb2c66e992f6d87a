# An application with the agent as a layer of its image. In the root of the checkout, after agent.Dockerfile:
#   docker build -f examples/deployment/app.Dockerfile -t own-batcher .
FROM latencytrace-agent:0.2.0 AS agent

FROM python:3.12-slim
WORKDIR /app
COPY examples/own_batcher/requirements.txt examples/own_batcher/app.py ./
RUN pip install --no-cache-dir -r requirements.txt
# Nothing else makes an application traced: these two lines, and where spans go.
COPY --from=agent /opt/latencytrace /opt/latencytrace
ENV PYTHONPATH=/opt/latencytrace/latencytrace/agent/autostart:/opt/latencytrace
USER 65532:65532
EXPOSE 8000
CMD ["uvicorn", "app:app", "--host", "0.0.0.0", "--port", "8000"]
