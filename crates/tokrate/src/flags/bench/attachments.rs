//! Flags of `tokrate bench` for pictures and sound that go with prompts. Nothing is resolved or checked here beyond its form.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// What goes with the prompts.
#[derive(Args, Clone, Debug, Default)]
pub struct Attachments {
    /// Images of a request, every one different; of a list each request draws one number
    #[arg(long, allow_negative_numbers = true, value_name = "N,…", value_delimiter = ',')]
    pub images: Option<Vec<u32>>,
    /// Their size in pixels, or that of the images of --task images; of a list each draws one, as often as its weight says [default: 1024x1024]
    #[arg(long, value_name = "WxH[:WEIGHT],…", value_delimiter = ',')]
    pub image_size: Option<Vec<String>>,
    /// How they are written [default: png]
    #[arg(long, value_enum)]
    pub image_format: Option<ImageFormat>,
    /// Images of a folder (PNG, JPEG, WebP, GIF) instead of made-up ones
    #[arg(long, value_name = "DIR", conflicts_with_all = ["image_size", "image_format"])]
    pub images_from: Option<PathBuf>,
    /// Share of the images that come from a pool all requests share, such as 50%, so that an encoder may know them [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub images_shared: Option<f64>,
    /// Images of that pool [default: 1]
    #[arg(long, value_name = "K")]
    pub image_pool: Option<u32>,
    /// With --task images: stream, with so many images that are not yet done before each that is
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    pub partial_images: Option<u32>,
    /// Sound of a request, such as 5s (WAV, 16 kHz); of a list each request draws one length
    #[arg(long, value_name = "TIME,…", value_delimiter = ',')]
    pub audio_input: Option<Vec<String>>,
}

/// How made-up images are written.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImageFormat {
    /// Lossless, 8 bits a channel
    Png,
    /// Baseline, without subsampling
    Jpeg,
}

fn share(text: &str) -> Result<f64, String> {
    crate::config::quantity::share(text).map_err(|error| error.to_string())
}
