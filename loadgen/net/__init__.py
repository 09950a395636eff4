"""The sockets: connections, the pump that reads them, kernel stamps, timers, limits of this machine."""
