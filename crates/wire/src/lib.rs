//! Provider dialects as sans-IO encoders and decoders.
