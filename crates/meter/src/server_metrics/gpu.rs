//! Graphics processors as exporters of metrics describe them: NVIDIA's DCGM-exporter and AMD's device-metrics-exporter.
//!
//! Names: `etc/default-counters.csv` of <https://github.com/NVIDIA/dcgm-exporter>, `docs/configuration/metricslist.md` of
//! <https://github.com/ROCm/device-metrics-exporter>, as of November 2026. Invariant: a processor is counted once, however many series
//! it has; what its exporter does not say is missing.

use super::{Exposition, Sample};
use std::collections::BTreeMap;

/// A graphics processor at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GpuReading {
    /// What tells it from others: host and identifier, and its model where that is known.
    pub name: String,
    /// Power that it draws (W).
    pub power_w: Option<f64>,
    /// Power that it may draw (W).
    pub power_limit_w: Option<f64>,
    /// Clock of its processing units (MHz).
    pub clock_mhz: Option<f64>,
    /// Share of the time in which it worked on anything, 0 to 1.
    pub busy: Option<f64>,
    /// Memory in use (bytes).
    pub memory_bytes: Option<f64>,
    /// Energy that it has drawn so far (J): what changes in every reading that is new.
    pub energy_j: Option<f64>,
}

/// Where a value goes.
type Field = fn(&mut GpuReading) -> &mut Option<f64>;

/// A metric: its name, the field, and the factor from its unit to ours. The first of a field that a processor has counts.
const METRICS: [(&str, Field, f64); 14] = [
    ("DCGM_FI_DEV_POWER_USAGE", |gpu| &mut gpu.power_w, 1.0),
    ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", |gpu| &mut gpu.power_limit_w, 1.0),
    ("DCGM_FI_DEV_POWER_MGMT_LIMIT", |gpu| &mut gpu.power_limit_w, 1.0),
    ("DCGM_FI_DEV_SM_CLOCK", |gpu| &mut gpu.clock_mhz, 1.0),
    ("DCGM_FI_DEV_GPU_UTIL", |gpu| &mut gpu.busy, 0.01),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", |gpu| &mut gpu.busy, 1.0),
    ("DCGM_FI_DEV_FB_USED", |gpu| &mut gpu.memory_bytes, 1_048_576.0),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", |gpu| &mut gpu.energy_j, 1e-3),
    ("gpu_package_power", |gpu| &mut gpu.power_w, 1.0),
    ("gpu_average_package_power", |gpu| &mut gpu.power_w, 1.0),
    ("gpu_power_usage", |gpu| &mut gpu.power_w, 1.0),
    ("gpu_clock", |gpu| &mut gpu.clock_mhz, 1.0),
    ("gpu_gfx_activity", |gpu| &mut gpu.busy, 0.01),
    ("gpu_used_vram", |gpu| &mut gpu.memory_bytes, 1_048_576.0),
];

/// Labels that tell a processor from others, of both exporters; in Kubernetes AMD's names begin with `amd_`.
const IDENTITY: [&[&str]; 3] = [&["Hostname", "hostname"], &["UUID", "gpu_uuid", "serial_number"], &["gpu", "gpu_id"]];
const MODELS: [&str; 3] = ["modelName", "card_model", "card_series"];

/// The processors that a page describes, in the order of their names. Of several series of a metric (partitions, clocks of several dies)
/// the first counts.
pub fn gpus_of(page: &Exposition) -> Vec<GpuReading> {
    let mut found: BTreeMap<String, GpuReading> = BTreeMap::new();
    for (metric, field, factor) in METRICS {
        let is_meant = |sample: &&Sample| {
            sample.name.strip_prefix("amd_").unwrap_or(&sample.name) == metric
                && sample.value.is_finite()
                && sample.label("clock_type").is_none_or(|kind| kind == "GPU_CLOCK_TYPE_SYSTEM")
        };
        for sample in page.samples.iter().filter(is_meant) {
            let gpu = found
                .entry(identity(sample))
                .or_insert_with(|| GpuReading { name: name(sample), ..GpuReading::default() });
            field(gpu).get_or_insert(sample.value * factor);
        }
    }
    found.into_values().collect()
}

/// What tells a processor from others on the page.
fn identity(sample: &Sample) -> String {
    let labels = IDENTITY.iter().map(|names| names.iter().find_map(|name| sample.label(name)).unwrap_or(""));
    labels.collect::<Vec<&str>>().join(" ")
}

/// What a processor is called: model, number and host.
fn name(sample: &Sample) -> String {
    let of = |names: &[&str]| names.iter().find_map(|name| sample.label(name)).filter(|value| !value.is_empty());
    let number = of(IDENTITY[2]).or(of(IDENTITY[1])).unwrap_or("?");
    let model = of(&MODELS).map(|model| format!(" ({model})")).unwrap_or_default();
    let host = of(IDENTITY[0]).map(|host| format!(" of {host}")).unwrap_or_default();
    format!("GPU {number}{host}{model}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_exporters_are_understood_in_our_units_and_each_processor_once() {
        let dcgm = "# TYPE DCGM_FI_DEV_SM_CLOCK gauge\n\
            DCGM_FI_DEV_SM_CLOCK{gpu=\"0\",UUID=\"GPU-a\",modelName=\"NVIDIA H100\",Hostname=\"n1\"} 1980\n\
            DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"GPU-a\",modelName=\"NVIDIA H100\",Hostname=\"n1\"} 412.5\n\
            DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"GPU-a\",GPU_I_ID=\"1\",modelName=\"NVIDIA H100\",Hostname=\"n1\"} 412.5\n\
            DCGM_FI_DEV_POWER_MGMT_LIMIT{gpu=\"0\",UUID=\"GPU-a\",modelName=\"NVIDIA H100\",Hostname=\"n1\"} 700\n\
            DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-a\",modelName=\"NVIDIA H100\",Hostname=\"n1\"} 98\n\
            DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-a\",modelName=\"NVIDIA H100\",Hostname=\"n1\"} 1024\n\
            DCGM_FI_DEV_POWER_USAGE{gpu=\"1\",UUID=\"GPU-b\",modelName=\"NVIDIA H100\",Hostname=\"n1\"} NaN\n";
        let gpus = gpus_of(&Exposition::parse(dcgm.as_bytes()));
        assert_eq!(gpus.len(), 1, "what says nothing is not there");
        let wanted = GpuReading {
            name: "GPU 0 of n1 (NVIDIA H100)".to_owned(),
            power_w: Some(412.5),
            power_limit_w: Some(700.0),
            clock_mhz: Some(1980.0),
            busy: Some(0.98),
            memory_bytes: Some(1_073_741_824.0),
            energy_j: None,
        };
        assert_eq!(gpus[0], wanted);
        let amd = "amd_gpu_package_power{gpu_id=\"3\",serial_number=\"S\",hostname=\"n2\"} 748\n\
            amd_gpu_average_package_power{gpu_id=\"3\",serial_number=\"S\",hostname=\"n2\"} 1\n\
            amd_gpu_clock{gpu_id=\"3\",serial_number=\"S\",hostname=\"n2\",clock_type=\"GPU_CLOCK_TYPE_MEMORY\"} 1292\n\
            amd_gpu_clock{gpu_id=\"3\",serial_number=\"S\",hostname=\"n2\",clock_type=\"GPU_CLOCK_TYPE_SYSTEM\"} 1533\n\
            gpu_gfx_activity{gpu_id=\"4\",serial_number=\"T\",hostname=\"n2\"} 50\n";
        let gpus = gpus_of(&Exposition::parse(amd.as_bytes()));
        let of = |gpu: &GpuReading| (gpu.name.clone(), gpu.power_w, gpu.clock_mhz, gpu.busy);
        assert_eq!(of(&gpus[0]), ("GPU 3 of n2".to_owned(), Some(748.0), Some(1533.0), None));
        assert_eq!(of(&gpus[1]), ("GPU 4 of n2".to_owned(), None, None, Some(0.5)));
        assert_eq!(gpus_of(&Exposition::parse(b"vllm:num_requests_running 3\n")), []);
    }
}
