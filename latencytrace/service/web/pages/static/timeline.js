// Stages over time: what is below the pointer, and a stretch of time that leads to its breakdown.
import { momentOf, onPicture, swapped } from './picture.js';

function begin(svg) {
  const scale = JSON.parse(svg.dataset.scale);
  const known = new Map(scale.columns.map(([column, ...rest]) => [column, rest]));
  const picture = onPicture(svg);
  const columnAt = (event) => Math.floor((picture.point(event).x - scale.left) / scale.column);
  const moment = (column) => momentOf(scale, column);
  let cursor = scale.columns.at(-1)[0];
  let from = null;

  const mark = (a, b) => {
    const left = Math.max(Math.min(a, b), 0);
    picture.brush.setAttribute('x', scale.left + left * scale.column);
    picture.brush.setAttribute('width', (Math.max(a, b) + 1 - left) * scale.column);
  };
  const forget = () => { from = null; picture.brush.setAttribute('width', 0); };
  const tell = (column) => {
    const found = known.get(column);
    const at = `${moment(column).slice(11, 19)} UTC`;
    return found ? `${at}: ${found[0]} requests, mean ${found[1]}: ${found[2]}` : `${at}: no request`;
  };
  const open = (a, b) => {
    const address = new URL(location.href);
    address.searchParams.set('since', moment(Math.min(a, b)));
    address.searchParams.set('until', moment(Math.max(a, b) + 1));
    location.assign(address);
  };
  svg.addEventListener('pointerdown', (event) => {
    from = columnAt(event);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener('pointermove', (event) => {
    const column = columnAt(event);
    if (from !== null) mark(from, column);
    picture.tip(event, column < 0 ? '' : tell(column));
  });
  svg.addEventListener('pointerleave', (event) => picture.tip(event, ''));
  svg.addEventListener('pointercancel', (event) => { forget(); picture.tip(event, ''); }); // a finger scrolls
  svg.addEventListener('pointerup', (event) => {
    if (from === null) return;
    const begun = from;
    from = null;
    open(begun, columnAt(event));
  });
  svg.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) {
      event.preventDefault();
      cursor = Math.max(cursor + step, 0);
      mark(cursor, cursor);
      document.getElementById('said').textContent = tell(cursor);
    } else if (event.key === 'Enter') open(cursor, cursor);
    else if (event.key === 'Escape') forget();
  });
  picture.atEnd();
  svg.dataset.ready = 'yes';
}

swapped('svg.timeline', begin);
