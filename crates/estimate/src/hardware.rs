//! Facts of devices, each with its source and date. Bandwidth in bytes/s, arithmetic in dense FLOP/s, memory in bytes.
//!
//! Invariant: a device that was checked has positive, finite memory, bandwidth and 16-bit arithmetic.

use crate::csv;
use crate::names;
use crate::precision::Arithmetic;

/// The table that is embedded.
const TABLE: &str = include_str!("../data/hardware.csv");

/// Kinds of devices that behave alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// GPUs and accelerators of data centres.
    Datacentre,
    /// Consumer and workstation cards.
    Consumer,
    /// Apple's chips.
    Apple,
    /// Other chips whose GPU shares the processor's memory.
    Unified,
    /// Processors.
    Cpu,
    /// Machines that hold the weights in on-chip memory.
    Sram,
}

impl Class {
    /// All classes with their names.
    pub const NAMES: [(&'static str, Class); 6] = [
        ("datacentre", Class::Datacentre),
        ("consumer", Class::Consumer),
        ("apple", Class::Apple),
        ("unified", Class::Unified),
        ("cpu", Class::Cpu),
        ("sram", Class::Sram),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Class::NAMES.iter().find(|(_, class)| *class == self).map_or("", |(name, _)| name)
    }

    /// The class of a name.
    pub fn named(name: &str) -> Option<Class> {
        Class::NAMES.iter().find(|(other, _)| *other == name.trim().to_lowercase()).map(|(_, class)| *class)
    }
}

/// A device.
#[derive(Clone, PartialEq, Debug)]
pub struct Device {
    /// Name in the table, or as asked where the facts came with the question.
    pub name: String,
    /// Other names, separated by `|`.
    pub aliases: String,
    /// Kind.
    pub class: Class,
    /// Memory, bytes.
    pub memory: f64,
    /// Memory bandwidth, bytes/s.
    pub bandwidth: f64,
    /// Peak of 16-bit arithmetic, FLOP/s, dense.
    pub bf16: f64,
    /// Peak of 8-bit floating point, FLOP/s, dense.
    pub fp8: Option<f64>,
    /// Peak of 4-bit floating point, FLOP/s, dense.
    pub fp4: Option<f64>,
    /// Link to the next device in one direction, bytes/s.
    pub link: Option<f64>,
    /// Rent of one device, $/hour, as a range.
    pub dollars_hour: Option<(f64, f64)>,
    /// How much of its peaks it reaches behind a server, over what its group reaches; 1 where nothing says so.
    pub reached: f64,
    /// Time a layer in a pipeline of on-chip memory, seconds; fitted to published speeds.
    pub layer_latency: Option<f64>,
    /// Where the facts are from, and when they were looked up.
    pub source: String,
}

/// Peak used where a device's arithmetic is unknown: FLOP/s per byte/s of bandwidth; low, so that compute is not understated.
const UNKNOWN_INTENSITY: f64 = 30.0;
/// The largest ratio of dense 8-bit to 16-bit peaks that hardware has; more is a figure with structured sparsity.
const MOST_FP8_OVER_BF16: f64 = 2.05;
/// Bandwidth above this does not exist in one device (wafer-scale memory apart), bytes/s.
const MOST_BANDWIDTH: f64 = 3e16;
/// FLOP/s above this do not exist in one device.
const MOST_ARITHMETIC: f64 = 3e17;

impl Device {
    /// All devices of the embedded table.
    pub fn all() -> Vec<Device> {
        csv::rows(TABLE).iter().filter_map(Device::of_row).collect()
    }

    fn of_row(row: &csv::Row) -> Option<Device> {
        let bandwidth = row.number("memory_bandwidth_gbps")? * 1e9;
        let tera = |column: &str| row.number(column).map(|value| value * 1e12);
        Some(Device {
            name: row.text("name").to_owned(),
            aliases: row.text("aliases").to_owned(),
            class: Class::named(row.text("class"))?,
            // Makers call 2^30 bytes of memory a GB.
            memory: row.number("memory_gb")? * GIB,
            bandwidth,
            bf16: tera("bf16_tflops").unwrap_or(bandwidth * UNKNOWN_INTENSITY),
            fp8: tera("fp8_tflops"),
            fp4: tera("fp4_tflops"),
            link: row.number("interconnect_gbps").map(|value| value * 1e9),
            dollars_hour: row.number("usd_hour_low").zip(row.number("usd_hour_high")),
            reached: row.number("reached").unwrap_or(1.0),
            layer_latency: row.number("layer_latency_us").map(|value| value * 1e-6),
            source: format!("{} ({})", row.text("source"), row.text("date")),
        })
    }

    /// A device by a name of it; a memory size in the name chooses among those of one name, or replaces the table's.
    ///
    /// # Errors
    /// The nearest names, where none fits.
    pub fn named(devices: &[Device], name: &str) -> Result<Device, String> {
        let exact = devices.iter().position(|device| device.name.eq_ignore_ascii_case(name.trim()));
        // "w/" is "with"; what is before a slash is a model's owner otherwise.
        let spelled = name.replace("w/", " ");
        let place = exact.or_else(|| names::find(&spelled, devices.iter().map(|device| device.aliases.as_str())));
        let Some(place) = place else {
            let near =
                names::nearest(name, devices.iter().map(|device| (device.name.as_str(), device.aliases.as_str())));
            let near = if near.is_empty() { String::new() } else { format!("; nearest: {}", near.join(", ")) };
            return Err(format!(
                "unknown hardware {name:?}{near}; or give memory_gb, memory_bandwidth_gbps and tflops"
            ));
        };
        let mut device = devices[place].clone();
        if let Some(asked) = names::memory_gb(name)
            && (asked * GIB / device.memory - 1.0).abs() > 0.1
        {
            let same = |other: &&Device| {
                other
                    .aliases
                    .split('|')
                    .next()
                    .is_some_and(|alias| device.aliases.split('|').next().is_some_and(|own| alias.starts_with(own)))
                    && (asked * GIB / other.memory - 1.0).abs() <= 0.1
            };
            match devices.iter().find(same) {
                Some(other) => device = other.clone(),
                None => device.memory = asked * GIB,
            }
        }
        Ok(device)
    }

    /// Peak of an arithmetic, FLOP/s; that of the next wider one where the device lacks it.
    pub fn peak(&self, arithmetic: Arithmetic) -> f64 {
        match arithmetic {
            Arithmetic::Bf16 => self.bf16,
            Arithmetic::Fp8 => self.fp8.unwrap_or(self.bf16),
            Arithmetic::Fp4 => self.fp4.or(self.fp8).unwrap_or(self.bf16),
        }
    }

    /// Checks the facts.
    ///
    /// # Errors
    /// Which fact is impossible, and why.
    pub fn check(&self) -> Result<(), String> {
        let positive = |what: &str, value: f64, most: f64| match value {
            value if value.is_finite() && value > 0.0 && value <= most => Ok(()),
            value => Err(format!("impossible hardware {}: {what} is {value:e}", self.name)),
        };
        positive("memory (bytes)", self.memory, 1e15)?;
        positive("memory bandwidth (bytes/s)", self.bandwidth, MOST_BANDWIDTH)?;
        positive("16-bit arithmetic (FLOP/s)", self.bf16, MOST_ARITHMETIC)?;
        for (what, value) in [("8-bit arithmetic (FLOP/s)", self.fp8), ("4-bit arithmetic (FLOP/s)", self.fp4)] {
            value.map_or(Ok(()), |value| positive(what, value, MOST_ARITHMETIC))?;
        }
        if let Some(fp8) = self.fp8
            && fp8 / self.bf16 > MOST_FP8_OVER_BF16
        {
            return Err(format!(
                "impossible hardware {}: 8-bit peak is {:.1} times the 16-bit one; a figure with sparsity counts double, give the dense one",
                self.name,
                fp8 / self.bf16
            ));
        }
        Ok(())
    }
}

/// 2^30 bytes.
pub const GIB: f64 = 1_073_741_824.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_possible_and_found_by_its_name() {
        let all = Device::all();
        assert_eq!(all.len(), TABLE.lines().count() - 1);
        for device in &all {
            device.check().expect("a row of the table");
            let found = Device::named(&all, &device.name).expect("by its own name");
            assert_eq!(found.name, device.name);
        }
    }

    #[test]
    fn a_memory_size_in_the_name_counts() {
        let all = Device::all();
        let memory = |name: &str| Device::named(&all, name).map(|device| (device.name, device.memory / GIB));
        assert_eq!(memory("Apple M4 Pro 24.0GB"), Ok(("Apple-M4-Pro-20c-48GB".to_owned(), 24.0)));
        assert_eq!(memory("a100-40gb").map(|found| found.0), Ok("A100-40GB".to_owned()));
        assert!(memory("AMD Ryzen AI MAX+ 395 w/ Radeon 8060S").is_ok());
        assert!(memory("h900").is_err_and(|text| text.contains("unknown hardware")));
    }

    #[test]
    fn impossible_facts_are_refused() {
        let mut device = Device::named(&Device::all(), "h100").expect("in the table");
        device.bandwidth = 0.0;
        assert!(device.check().is_err());
        let mut device = Device::named(&Device::all(), "h100").expect("in the table");
        device.fp8 = Some(3958e12);
        assert!(device.check().is_err_and(|text| text.contains("sparsity")));
    }
}
