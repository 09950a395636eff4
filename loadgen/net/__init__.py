"""The sockets: routes, connections, TLS, the pump that reads them, kernel stamps, timers, limits of this machine."""
