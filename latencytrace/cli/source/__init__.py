"""Where answers come from: a service, or its folder."""
