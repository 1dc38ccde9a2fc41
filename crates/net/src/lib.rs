//! Clock, pacer, stamping transport, HTTP client and server.
