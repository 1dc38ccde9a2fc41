//! Tests of lane_model.
