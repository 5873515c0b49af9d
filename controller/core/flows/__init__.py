"""TCP connections: the global-view flow table (GVT) with BGT and BRT, and the life of connections:
opened, counted, classified, recovered after a restart, closed (`connections`)."""
