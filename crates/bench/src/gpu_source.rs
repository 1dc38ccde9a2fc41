//! Graphics processors that are read without a page.

use std::fmt::Debug;
use tokrate_meter::server_metrics::GpuReading;

/// Graphics processors that are read without a page, such as through a driver.
pub trait GpuSource: Debug + Send + Sync {
    /// Each of them now.
    ///
    /// # Errors
    /// Why they could not be read.
    fn read(&self) -> Result<Vec<GpuReading>, String>;
}
