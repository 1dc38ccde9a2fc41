//! Load plans, the driver that carries them out, self-calibration and reports.
