"""Pictures of two cohorts side by side, and of forecasts."""
