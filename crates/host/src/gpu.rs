//! Graphics processors of a simulated engine: power, clock and energy by a law, published as NVIDIA's DCGM-exporter does.
//!
//! Invariant: energy is the exact integral of power over the engine's own time. Names: `etc/default-counters.csv` of
//! <https://github.com/NVIDIA/dcgm-exporter>.

use std::fmt::Write;
use tokrate_core::Tick;

/// The law of the processors of an engine. With r of n places taken, each draws `idle_watts` and r / n of the rest up to `peak_watts`, but
/// never more than `cap_watts`; beyond the cap the clock falls as far as the power that is left out.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GpuLaw {
    /// How many there are.
    pub count: u32,
    /// Power of each while nothing runs (W).
    pub idle_watts: f64,
    /// Power of each with every place taken, were there no cap (W).
    pub peak_watts: f64,
    /// Most that each may draw (W).
    pub cap_watts: f64,
}

/// Clock below the cap (MHz).
const CLOCK_MHZ: f64 = 1_980.0;

/// A processor at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GpuState {
    /// Power (W).
    pub watts: f64,
    /// Clock (MHz).
    pub clock_mhz: f64,
}

impl GpuLaw {
    /// Each processor with so many places taken of so many.
    pub fn state(&self, running: u32, places: u32) -> GpuState {
        let load = (f64::from(running) / f64::from(places.max(1))).min(1.0);
        let above_idle = (self.peak_watts - self.idle_watts) * load;
        let most = self.cap_watts - self.idle_watts;
        let share = if above_idle > most { most / above_idle } else { 1.0 };
        GpuState { watts: self.idle_watts + above_idle * share, clock_mhz: CLOCK_MHZ * share }
    }
}

/// The processors of an engine over time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GpuMeter {
    law: GpuLaw,
    places: u32,
    running: u32,
    since: Tick,
    /// Energy of each until then (J).
    joules: f64,
}

impl GpuMeter {
    pub fn new(law: GpuLaw, places: u32, now: Tick) -> GpuMeter {
        GpuMeter { law, places, running: 0, since: now, joules: 0.0 }
    }

    /// So many places are taken from now on.
    pub fn set(&mut self, running: u32, now: Tick) {
        self.joules += self.law.state(self.running, self.places).watts * (now - self.since).as_secs_f64();
        (self.running, self.since) = (running, now);
    }

    /// The page of all of them.
    pub fn page(mut self, now: Tick) -> String {
        self.set(self.running, now);
        let state = self.law.state(self.running, self.places);
        let busy = if self.running > 0 { 100.0 } else { 0.0 };
        let rows = [
            ("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", state.clock_mhz),
            ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", state.watts),
            ("DCGM_FI_DEV_POWER_MGMT_LIMIT", "gauge", "Power management limit (in W).", self.law.cap_watts),
            (
                "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
                "counter",
                "Total energy consumption since boot (in mJ).",
                self.joules * 1e3,
            ),
            ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", busy),
        ];
        let mut text = String::new();
        for (name, kind, help, value) in rows {
            // A string takes everything.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for gpu in 0..self.law.count {
                let labels = format!("gpu=\"{gpu}\",UUID=\"GPU-sim-{gpu}\",modelName=\"simulated\",Hostname=\"sim\"");
                let _ = writeln!(text, "{name}{{{labels}}} {value}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAW: GpuLaw = GpuLaw { count: 2, idle_watts: 100.0, peak_watts: 700.0, cap_watts: 500.0 };

    #[test]
    fn power_follows_the_places_up_to_the_cap_and_the_clock_gives_way() {
        assert_eq!(LAW.state(0, 8), GpuState { watts: 100.0, clock_mhz: 1_980.0 });
        assert_eq!(LAW.state(4, 8), GpuState { watts: 400.0, clock_mhz: 1_980.0 });
        let capped = LAW.state(8, 8);
        assert!((capped.watts - 500.0).abs() < 1e-9 && (capped.clock_mhz - 1_320.0).abs() < 1e-9, "{capped:?}");
        assert_eq!(LAW.state(9, 8), capped, "who waits draws nothing");
    }

    #[test]
    fn energy_is_the_integral_of_power() {
        let second = |second: u64| Tick::from_nanos(second * 1_000_000_000);
        let mut meter = GpuMeter::new(LAW, 8, second(0));
        meter.set(4, second(10));
        meter.set(8, second(20));
        // 10 s at 100, 10 s at 400, 5 s at 500 W.
        let page = meter.page(second(25));
        assert!(page.contains("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu=\"1\",UUID=\"GPU-sim-1\",modelName=\"simulated\",Hostname=\"sim\"} 7500000"), "{page}");
    }
}
