//! The header of a GGUF file: metadata and the list of tensors, as ggml's specification has them (version 2 and 3, little-endian).
//!
//! Invariant: nothing is allocated by a length that a file states; work is linear in the bytes that are there.

use super::{MOST_LAYERS, whole};
use crate::model::Model;
use std::collections::BTreeMap;

/// Why a header cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HeaderError {
    /// It goes on beyond the bytes that were given.
    Truncated,
    /// It is none, or it is damaged; in words.
    Invalid(String),
}

/// A header, as far as it tells something of the model.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Header {
    numbers: BTreeMap<String, f64>,
    texts: BTreeMap<String, String>,
    /// Lengths of arrays, and the largest of their elements where they are numbers.
    arrays: BTreeMap<String, (u64, f64)>,
    /// Parameters.
    params: f64,
    /// Those of experts that routing chooses among.
    expert_params: f64,
    /// Bytes of the tensors.
    bytes: f64,
    /// Bytes by the name of the storage type.
    types: BTreeMap<&'static str, f64>,
    has_output: bool,
}

/// A model by its file, with the bytes of its weights and their most common format.
#[derive(Clone, PartialEq, Debug)]
pub struct Weights {
    /// The model.
    pub model: Model,
    /// Bytes of all weights.
    pub bytes: f64,
}

/// The first bytes of a file.
const MAGIC: &[u8; 4] = b"GGUF";
/// Longest key or name that is kept.
const MOST_NAME: u64 = 65_535;
/// Arrays within arrays.
const MOST_NESTED: u32 = 4;
/// Dimensions of a tensor.
const MOST_DIMENSIONS: u32 = 8;

/// Families with windows, and which layers attend to everything: each second, each sixth.
const WINDOWED: &[(&str, f64)] = &[("gemma2", 2.0), ("gpt-oss", 2.0), ("gemma3", 6.0)];

/// Storage types by their numbers: name, weights a block, bytes a block (ggml.h). Of fewer than two bits the name is that of
/// the nearest format that is known, so that the arithmetic is.
const TYPES: &[(u32, &str, f64, f64)] = &[
    (0, "F32", 1.0, 4.0),
    (1, "F16", 1.0, 2.0),
    (2, "Q4_0", 32.0, 18.0),
    (3, "Q4_1", 32.0, 20.0),
    (6, "Q5_0", 32.0, 22.0),
    (7, "Q5_1", 32.0, 24.0),
    (8, "Q8_0", 32.0, 34.0),
    (10, "Q2_K", 256.0, 84.0),
    (11, "Q3_K", 256.0, 110.0),
    (12, "Q4_K", 256.0, 144.0),
    (13, "Q5_K", 256.0, 176.0),
    (14, "Q6_K", 256.0, 210.0),
    (15, "Q8_K", 256.0, 292.0),
    (16, "IQ2_XXS", 256.0, 66.0),
    (17, "IQ2_XS", 256.0, 74.0),
    (18, "IQ3_XXS", 256.0, 98.0),
    (19, "IQ2_S", 256.0, 50.0),
    (20, "IQ4_NL", 32.0, 18.0),
    (21, "IQ3_S", 256.0, 110.0),
    (22, "IQ2_S", 256.0, 82.0),
    (23, "IQ4_XS", 256.0, 136.0),
    (29, "IQ2_S", 256.0, 56.0),
    (30, "BF16", 1.0, 2.0),
    (39, "MXFP4", 32.0, 17.0),
];

struct Reader<'a> {
    left: &'a [u8],
}

type Read<T> = Result<T, HeaderError>;

impl<'a> Reader<'a> {
    fn take(&mut self, count: u64) -> Read<&'a [u8]> {
        let count = usize::try_from(count).map_err(|_| HeaderError::Truncated)?;
        let (taken, left) = self.left.split_at_checked(count).ok_or(HeaderError::Truncated)?;
        self.left = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        self.take(N as u64)?.try_into().map_err(|_| HeaderError::Truncated)
    }

    fn u32(&mut self) -> Read<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Read<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn name(&mut self) -> Read<String> {
        let length = self.u64()?;
        if length > MOST_NAME {
            return Err(HeaderError::Invalid(format!("a name of {length} bytes")));
        }
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    /// A number of a metadata value's type; `None` of other types.
    fn number(&mut self, kind: u32) -> Read<Option<f64>> {
        Ok(Some(match kind {
            0 | 7 => f64::from(self.array::<1>()?[0]),
            1 => f64::from(i8::from_le_bytes(self.array()?)),
            2 => f64::from(u16::from_le_bytes(self.array()?)),
            3 => f64::from(i16::from_le_bytes(self.array()?)),
            4 => f64::from(self.u32()?),
            5 => f64::from(i32::from_le_bytes(self.array()?)),
            6 => f64::from(f32::from_le_bytes(self.array()?)),
            10 => self.u64()? as f64,
            11 => i64::from_le_bytes(self.array()?) as f64,
            12 => f64::from_le_bytes(self.array()?),
            _ => return Ok(None),
        }))
    }

    /// Passes over an array; its length and the largest of its numbers.
    fn elements(&mut self, depth: u32) -> Read<(u64, f64)> {
        let (kind, count) = (self.u32()?, self.u64()?);
        let mut most = 0.0f64;
        for _ in 0..count {
            match kind {
                8 => {
                    let length = self.u64()?;
                    self.take(length)?;
                }
                9 if depth < MOST_NESTED => {
                    self.elements(depth + 1)?;
                }
                kind => match self.number(kind)? {
                    Some(number) => most = most.max(number),
                    None => return Err(HeaderError::Invalid(format!("an array of the unknown type {kind}"))),
                },
            }
        }
        Ok((count, most))
    }
}

impl Header {
    /// Reads it from the first bytes of a file.
    ///
    /// # Errors
    /// More bytes are needed, or what is wrong.
    pub fn read(bytes: &[u8]) -> Result<Header, HeaderError> {
        let mut reader = Reader { left: bytes };
        if bytes.len() >= MAGIC.len() && !bytes.starts_with(MAGIC) {
            return Err(HeaderError::Invalid("it does not begin as a GGUF file does".to_owned()));
        }
        reader.take(MAGIC.len() as u64)?;
        let version = reader.u32()?;
        if !(2..=3).contains(&version) {
            return Err(HeaderError::Invalid(format!(
                "its version is {version}; 2 and 3 are read, least significant byte first"
            )));
        }
        let (tensors, pairs) = (reader.u64()?, reader.u64()?);
        let mut header = Header::default();
        for _ in 0..pairs {
            header.pair(&mut reader)?;
        }
        for _ in 0..tensors {
            header.tensor(&mut reader)?;
        }
        Ok(header)
    }

    fn pair(&mut self, reader: &mut Reader<'_>) -> Read<()> {
        let key = reader.name()?;
        match reader.u32()? {
            8 => {
                let length = reader.u64()?;
                let text = reader.take(length)?;
                if length <= MOST_NAME {
                    self.texts.insert(key, String::from_utf8_lossy(text).into_owned());
                }
            }
            9 => {
                let found = reader.elements(0)?;
                self.arrays.insert(key, found);
            }
            kind => match reader.number(kind)? {
                Some(number) => {
                    self.numbers.insert(key, number);
                }
                None => return Err(HeaderError::Invalid(format!("{key:?} has the unknown type {kind}"))),
            },
        }
        Ok(())
    }

    fn tensor(&mut self, reader: &mut Reader<'_>) -> Read<()> {
        let name = reader.name()?;
        let dimensions = reader.u32()?;
        if dimensions > MOST_DIMENSIONS {
            return Err(HeaderError::Invalid(format!("the tensor {name:?} has {dimensions} dimensions")));
        }
        let mut weights = 1.0;
        for _ in 0..dimensions {
            weights *= reader.u64()? as f64;
        }
        let kind = reader.u32()?;
        reader.u64()?;
        let Some((_, kind, block, bytes)) = TYPES.iter().find(|(number, ..)| *number == kind) else {
            return Err(HeaderError::Invalid(format!("the tensor {name:?} has the unknown type {kind}")));
        };
        self.params += weights;
        self.bytes += weights / block * bytes;
        *self.types.entry(kind).or_default() += weights / block * bytes;
        if name.contains("_exps") {
            self.expert_params += weights;
        }
        self.has_output |= name == "output.weight";
        Ok(())
    }

    /// The model.
    ///
    /// # Errors
    /// The key that is missing, or what is impossible.
    pub fn model(&self, name: &str) -> Result<Weights, String> {
        let family = self.texts.get("general.architecture").ok_or("it lacks general.architecture")?;
        if self.number("split.count").is_some_and(|count| count > 1.0) {
            return Err(
                "it is one part of several, and holds a part of the weights only; give the facts with --params-b \
                        and --model NAME, or a file in one part"
                    .to_owned(),
            );
        }
        let of = |key: &str| {
            let key = format!("{family}.{key}");
            let found = self.number(&key).or_else(|| self.arrays.get(&key).map(|(_, most)| *most));
            found.map(|value| whole(&key, value)).transpose()
        };
        let needed =
            |key: &str| of(key)?.filter(|value| *value > 0.0).ok_or_else(|| format!("it lacks {family}.{key}"));
        let layers = needed("block_count")?;
        if layers > MOST_LAYERS {
            return Err(format!("{family}.block_count is {layers}; at most {MOST_LAYERS} are read"));
        }
        let (hidden, heads) = (needed("embedding_length")?, needed("attention.head_count")?);
        let vocab = match self.arrays.get("tokenizer.ggml.tokens") {
            Some((count, _)) => *count as f64,
            None => needed("vocab_size")?,
        };
        let experts = of("expert_count")?.unwrap_or(0.0);
        let used = if experts > 0.0 { needed("expert_used_count")? } else { 0.0 };
        let rank = of("attention.kv_lora_rank")?.filter(|rank| *rank > 0.0);
        let window = of("attention.sliding_window")?.filter(|window| *window > 0.0);
        // Which layers have the window is not in the file: of a family that is not known to have any, all attend to everything.
        let every = WINDOWED.iter().find(|(known, _)| known == family).map_or(1.0, |(_, every)| *every);
        let full_layers = (layers / every).floor();
        let head_dim = of("attention.key_length")?.filter(|width| *width > 0.0).unwrap_or((hidden / heads).floor());
        if self.params <= 0.0 {
            return Err("it lists no tensors".to_owned());
        }
        let most = self.types.iter().max_by(|a, b| a.1.total_cmp(b.1)).map_or("", |(kind, _)| *kind);
        let model = Model {
            name: self.texts.get("general.name").filter(|it| !it.is_empty()).map_or(name, String::as_str).to_owned(),
            aliases: String::new(),
            params: self.params,
            active: self.params
                - self.expert_params * if experts > 0.0 { 1.0 - (used / experts).min(1.0) } else { 0.0 },
            layers,
            hidden,
            heads,
            kv_heads: of("attention.head_count_kv")?.filter(|count| *count > 0.0).unwrap_or(heads),
            head_dim,
            vocab,
            experts,
            experts_per_token: used,
            full_layers,
            window: window.filter(|_| full_layers < layers),
            latent: match rank {
                Some(rank) => Some(rank + of("rope.dimension_count")?.unwrap_or(0.0)),
                None => None,
            },
            tied: !self.has_output,
            native: most.to_owned(),
            max_context: of("context_length")?.filter(|most| *most > 0.0),
            source: "the header of its GGUF file".to_owned(),
        };
        model.check()?;
        Ok(Weights { model, bytes: self.bytes })
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.numbers.get(key).copied()
    }
}

#[cfg(test)]
mod tests;
