//! How weights are stored: bytes a weight, and the arithmetic that multiplies them.

/// The arithmetic of the matrix units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arithmetic {
    /// 16-bit floating point.
    Bf16,
    /// 8-bit floating point.
    Fp8,
    /// 4-bit floating point.
    Fp4,
}

/// A storage format of weights.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Precision {
    /// Bytes a weight, with scales, averaged over the model.
    pub bytes: f64,
    /// The arithmetic after unpacking.
    pub arithmetic: Arithmetic,
    /// Whether weights are unpacked to a wider format on every use.
    pub unpacked: bool,
}

/// Formats, by the beginning of their names; bits a weight with scales. GGUF: sizes of published 8B files over their weights.
const FORMATS: &[(&str, f64, Arithmetic, bool)] = &[
    ("nvfp4", 4.5, Arithmetic::Fp4, false),
    ("mxfp4", 4.25, Arithmetic::Fp4, false),
    ("fp4", 4.5, Arithmetic::Fp4, false),
    ("fp8", 8.0, Arithmetic::Fp8, false),
    ("w8a8", 8.0, Arithmetic::Fp8, false),
    ("bf16", 16.0, Arithmetic::Bf16, false),
    ("bfloat16", 16.0, Arithmetic::Bf16, false),
    ("fp16", 16.0, Arithmetic::Bf16, false),
    ("float16", 16.0, Arithmetic::Bf16, false),
    ("f16", 16.0, Arithmetic::Bf16, false),
    ("fp32", 32.0, Arithmetic::Bf16, false),
    ("f32", 32.0, Arithmetic::Bf16, false),
    ("int8", 8.0, Arithmetic::Bf16, true),
    ("w8", 8.0, Arithmetic::Bf16, true),
    ("8bit", 8.5, Arithmetic::Bf16, true),
    ("6bit", 6.5, Arithmetic::Bf16, true),
    ("int4", 4.25, Arithmetic::Bf16, true),
    ("w4", 4.25, Arithmetic::Bf16, true),
    ("awq", 4.25, Arithmetic::Bf16, true),
    ("gptq", 4.25, Arithmetic::Bf16, true),
    ("4bit", 4.5, Arithmetic::Bf16, true),
    ("q8", 8.5, Arithmetic::Bf16, true),
    ("q6", 6.57, Arithmetic::Bf16, true),
    ("q5", 5.67, Arithmetic::Bf16, true),
    ("q4_0", 4.65, Arithmetic::Bf16, true),
    ("q4_k_s", 4.67, Arithmetic::Bf16, true),
    ("q4", 4.9, Arithmetic::Bf16, true),
    ("iq4", 4.45, Arithmetic::Bf16, true),
    ("q3", 4.0, Arithmetic::Bf16, true),
    ("iq3", 3.7, Arithmetic::Bf16, true),
    ("q2", 3.2, Arithmetic::Bf16, true),
    ("iq2", 2.7, Arithmetic::Bf16, true),
];

impl Precision {
    /// A format by its name, such as `fp8`, `Q4_K_M`, `awq`.
    pub fn named(name: &str) -> Option<Precision> {
        let plain = name.trim().to_lowercase().replace('-', "_");
        let plain = plain.strip_prefix("mlx_").or(plain.strip_prefix("ud_")).unwrap_or(&plain).to_owned();
        let found = FORMATS.iter().find(|(start, ..)| plain.starts_with(start))?;
        Some(Precision { bytes: found.1 / 8.0, arithmetic: found.2, unpacked: found.3 })
    }

    /// The format that the end of a file's name says, such as `…-Q4_K_M.gguf`.
    pub fn in_file_name(name: &str) -> Option<Precision> {
        let plain = name.strip_suffix(".gguf").unwrap_or(name);
        let last = plain.rsplit(['-', ':', '.', ' ']).next()?;
        Precision::named(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_found_by_their_usual_names() {
        assert_eq!(Precision::named("fp8").map(|p| p.bytes), Some(1.0));
        assert_eq!(Precision::named("BF16").map(|p| p.bytes), Some(2.0));
        assert_eq!(Precision::named("Q4_K_M").map(|p| (p.bytes, p.unpacked)), Some((4.9 / 8.0, true)));
        assert_eq!(Precision::named("nonsense"), None);
        assert_eq!(Precision::in_file_name("Qwen3-8B-Q4_K_M.gguf"), Precision::named("q4_k_m"));
    }
}
