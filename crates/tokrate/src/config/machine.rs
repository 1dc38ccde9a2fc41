//! Facts of this machine that bear on an engine that runs here: CPU, memory, graphics processors.
//!
//! What cannot be found is left out, without an error. Invariant: nothing is run and nothing is changed to find it.

use std::net::IpAddr;
use std::sync::Arc;
use tokrate_bench::GpuSource;
use tokrate_record::{EngineHost, Gpu};

/// The facts, if `host` is this machine by its name.
pub fn facts_if_here(host: &str) -> Option<EngineHost> {
    is_here(host).then(|| {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        EngineHost {
            cpu: cpu(&read("/proc/cpuinfo")),
            cores: std::thread::available_parallelism().ok().and_then(|cores| u32::try_from(cores.get()).ok()),
            memory_bytes: memory_bytes(&read("/proc/meminfo")),
            gpus: gpus(),
        }
    })
}

/// Whether a host is the loopback.
fn is_here(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The CPU's name out of `/proc/cpuinfo`.
fn cpu(text: &str) -> Option<String> {
    let named = |wanted: &str| {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        lines
            .into_iter()
            .filter(|(name, _)| name.trim() == wanted)
            .map(|(_, value)| value.trim().to_owned())
            .find(|value| !value.is_empty())
    };
    ["model name", "Model", "cpu model"].into_iter().find_map(named)
}

/// Main memory out of `/proc/meminfo`.
fn memory_bytes(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The graphics processors that NVIDIA's driver knows.
#[cfg(feature = "nvml")]
fn gpus() -> Option<Vec<Gpu>> {
    let nvml = nvml_wrapper::Nvml::init().ok()?;
    let driver = nvml.sys_driver_version().ok();
    let gpu = |index| {
        let device = nvml.device_by_index(index).ok()?;
        let memory_bytes = device.memory_info().ok().map(|memory| memory.total);
        Some(Gpu { name: device.name().ok()?, memory_bytes, driver: driver.clone() })
    };
    Some((0..nvml.device_count().ok()?).filter_map(gpu).collect())
}

/// The processors that NVIDIA's driver knows, to be read during a run; `None` where there is no driver.
#[cfg(feature = "nvml")]
pub fn gpu_source() -> Option<Arc<dyn GpuSource>> {
    let nvml = nvml_wrapper::Nvml::init().ok()?;
    Some(Arc::new(Driver(nvml)))
}

/// Not looked for.
#[cfg(not(feature = "nvml"))]
pub fn gpu_source() -> Option<Arc<dyn GpuSource>> {
    None
}

/// NVIDIA's driver.
#[cfg(feature = "nvml")]
struct Driver(nvml_wrapper::Nvml);

#[cfg(feature = "nvml")]
impl std::fmt::Debug for Driver {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("NVIDIA's driver")
    }
}

#[cfg(feature = "nvml")]
impl GpuSource for Driver {
    fn read(&self) -> Result<Vec<tokrate_meter::server_metrics::GpuReading>, String> {
        use nvml_wrapper::enum_wrappers::device::Clock;
        let count = self.0.device_count().map_err(|error| format!("NVIDIA's driver: {error}"))?;
        let gpu = |index| {
            let device =
                self.0.device_by_index(index).map_err(|error| format!("NVIDIA's driver, GPU {index}: {error}"))?;
            let model = device.name().map(|name| format!(" ({name})")).unwrap_or_default();
            Ok(tokrate_meter::server_metrics::GpuReading {
                name: format!("GPU {index}{model}"),
                // The driver counts in milliwatts.
                power_w: device.power_usage().ok().map(|power| f64::from(power) / 1e3),
                power_limit_w: device.enforced_power_limit().ok().map(|power| f64::from(power) / 1e3),
                clock_mhz: device.clock_info(Clock::SM).ok().map(f64::from),
                busy: device.utilization_rates().ok().map(|rates| f64::from(rates.gpu) / 100.0),
                memory_bytes: device.memory_info().ok().map(|memory| memory.used as f64),
                energy_j: device.total_energy_consumption().ok().map(|energy| energy as f64 / 1e3),
            })
        };
        (0..count).map(gpu).collect()
    }
}

/// Not looked for.
#[cfg(not(feature = "nvml"))]
fn gpus() -> Option<Vec<Gpu>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_loopback_is_here() {
        for (host, here) in [
            ("127.0.0.1", true),
            ("127.8.0.1", true),
            ("::1", true),
            ("Localhost", true),
            ("10.0.0.1", false),
            ("h", false),
        ] {
            assert_eq!(is_here(host), here, "{host}");
        }
        assert!(facts_if_here("example.com").is_none());
    }

    #[test]
    fn facts_are_read_from_what_linux_says() {
        let x86 = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Some CPU @ 2.50GHz\n\nprocessor\t: 1\n";
        assert_eq!(cpu(x86).as_deref(), Some("Some CPU @ 2.50GHz"));
        assert_eq!(cpu("processor : 0\nmodel name :\nModel : A Board\n").as_deref(), Some("A Board"));
        assert_eq!((cpu(""), cpu("no colon\n")), (None, None));
        assert_eq!(memory_bytes("MemTotal:       24689764 kB\nMemFree: 1 kB\n"), Some(24_689_764 * 1024));
        for broken in ["", "MemTotal: lots", "MemTotal: 3 MB", "MemTotal: 99999999999999999999 kB"] {
            assert_eq!(memory_bytes(broken), None, "{broken}");
        }
    }
}
