//! Tests of budget.
