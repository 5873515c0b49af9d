"""TCP connections: the global-view flow table (GVT), who is in BGT and BRT, and when a connection
begins, is counted, changes its class, is found again after a restart, and ends (`connections`)."""
