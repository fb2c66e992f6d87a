// The types of Grafana that our dashboards are held to; make_schema.py turns them into JSON Schema.
import type { TableFieldOptions } from '@grafana/schema';
import type { Dashboard } from '@grafana/schema/dist/esm/raw/dashboard/x/dashboard_types.gen';
import type * as bargauge from '@grafana/schema/dist/esm/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen';
import type * as heatmap from '@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen';
import type * as stat from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type * as states from '@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen';
import type * as table from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import type * as timeseries from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';
// From here on Prometheus' query is a type of another package, which cannot be had without React.
import type { PrometheusDataQuery } from 'grafana-schema-10/dist/esm/raw/composable/prometheus/dataquery/x/PrometheusDataQuery_types.gen';

export type WholeDashboard = Dashboard;
export type PrometheusQuery = PrometheusDataQuery;
export type BargaugeOptions = bargauge.Options;
export type HeatmapOptions = heatmap.Options;
export type HeatmapCustom = heatmap.FieldConfig;
export type StatOptions = stat.Options;
export type StateTimelineOptions = states.Options;
export type StateTimelineCustom = states.FieldConfig;
export type TableOptions = table.Options;
export type TableCustom = TableFieldOptions;
export type TimeseriesOptions = timeseries.Options;
export type TimeseriesCustom = timeseries.FieldConfig;
