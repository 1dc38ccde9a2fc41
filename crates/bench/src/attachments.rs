//! Pictures and sound that requests bring with their prompts: how many each has, how large, and what they are.
//!
//! Invariant: how many a request has and how large they are follows from its number and the seed alone; no two pictures are alike unless they were asked to be shared.

use crate::bad_input::hash;
use tokrate_core::{ChatRequest, Content, Image, Message, Rng, Role, Span};
use tokrate_meter::Media;
use tokrate_record::MediaAmounts;
use tokrate_wire::media::{PictureFormat, PictureSize, mosaic, picture_size, sound_part, to_base64};
use tokrate_wire::sound::{HEARD_RATE, made_up};
use tokrate_wire::{Dialect, ImageOptions};

/// What requests bring.
#[derive(Clone, PartialEq, Debug)]
pub struct Attachments {
    /// Pictures of a request: each draws one of these numbers.
    pub counts: Vec<u32>,
    /// Where they come from.
    pub pictures: Pictures,
    /// Share of the pictures that are drawn from a pool that all requests share.
    pub shared: f64,
    /// Pictures of the pool.
    pub pool: u32,
    /// Length of the sound of a request: each draws one; empty for none.
    pub sounds: Vec<Span>,
}

/// Where pictures come from.
#[derive(Clone, PartialEq, Debug)]
pub enum Pictures {
    /// Made up, in one of these sizes each.
    Made(Vec<SizeShare>, PictureFormat),
    /// Those of files, drawn one for one.
    Files(PictureFiles),
}

/// A size of made-up pictures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SizeShare {
    /// Pixels of a line.
    pub width: u32,
    /// Lines.
    pub height: u32,
    /// How often it is drawn, beside those of the others.
    pub weight: f64,
}

/// Images that requests ask for.
#[derive(Clone, PartialEq, Debug)]
pub struct ImagesAsked {
    /// The sizes, of which each request draws one.
    pub sizes: Vec<SizeShare>,
    /// Images that are to come before each is done; `None` asks for one piece.
    pub partial: Option<u32>,
}

impl ImagesAsked {
    /// The sizes in words, as a condition of the result.
    pub fn text(&self) -> String {
        format!("of {}", sizes_text(&self.sizes))
    }

    /// Pixels of the largest.
    pub(crate) fn most_pixels(&self) -> u64 {
        most_pixels(&self.sizes)
    }

    /// What the request of that number asks of its images.
    pub(crate) fn options(&self, rng: &Rng, number: u64) -> ImageOptions {
        let size = size_of(&self.sizes, rng.child("image sizes").nth(number).unit());
        ImageOptions { size: Some(size), partial: self.partial }
    }
}

/// Pictures that were read from files.
#[derive(Clone, PartialEq, Debug)]
pub struct PictureFiles {
    name: String,
    files: Vec<(PictureSize, String)>,
}

impl PictureFiles {
    /// Of the contents of files with their names, in the order of the names.
    ///
    /// # Errors
    /// Which of them is no picture whose size can be read, or that there is none.
    pub fn new(name: &str, files: &[(String, Vec<u8>)]) -> Result<PictureFiles, String> {
        if files.is_empty() {
            return Err("there is no file in it".to_owned());
        }
        let read = |(file, bytes): &(String, Vec<u8>)| {
            let size = picture_size(bytes);
            let size = size.ok_or_else(|| format!("{file} is no PNG, JPEG, WebP or GIF, or says no size"))?;
            Ok((size, to_base64(bytes)))
        };
        let files: Vec<_> = files.iter().map(read).collect::<Result<_, String>>()?;
        let content = files.iter().fold(0, |known, (_, text)| hash(&format!("{known:x} {text}")));
        Ok(PictureFiles { name: format!("{name} ({} files, {:08x})", files.len(), content >> 32), files })
    }
}

/// What attachments are drawn by.
pub(crate) struct Draws {
    /// How many there are and how large.
    pub plan: Rng,
    /// What they hold.
    pub content: Rng,
}

/// A picture that is drawn for a request.
struct Drawn<'a> {
    /// What it holds.
    content: Rng,
    width: u32,
    height: u32,
    /// The file that it is, if it is one.
    file: Option<&'a (PictureSize, String)>,
}

impl Attachments {
    /// In words, as a condition of the result.
    pub fn text(&self) -> String {
        let mut parts = Vec::new();
        if self.counts.iter().any(|count| *count > 0) {
            let counts: Vec<String> = self.counts.iter().map(u32::to_string).collect();
            let what = match &self.pictures {
                Pictures::Made(sizes, format) => format!("of {} ({})", sizes_text(sizes), format.name()),
                Pictures::Files(files) => format!("from {}", files.name),
            };
            let noun = if self.counts == [1] { "image" } else { "images" };
            let shared = match self.shared {
                0.0 => String::new(),
                share => format!(", {} % of them out of a pool of {}", share * 100.0, self.pool),
            };
            parts.push(format!("{} {noun} {what}{shared}", counts.join(" or ")));
        }
        if !self.sounds.is_empty() {
            let lengths: Vec<String> = self.sounds.iter().map(|length| length.as_secs_f64().to_string()).collect();
            parts.push(format!("{} s of sound (wav)", lengths.join(" or ")));
        }
        parts.join(" and ")
    }

    /// What a request has at most.
    pub(crate) fn at_most(&self) -> MediaAmounts {
        let pixels = match &self.pictures {
            Pictures::Made(sizes, _) => most_pixels(sizes),
            Pictures::Files(files) => files.files.iter().map(|(size, _)| size.pixels()).max().unwrap_or(0),
        };
        let pictures = u64::from(self.counts.iter().copied().max().unwrap_or(0));
        MediaAmounts {
            images_in: pictures,
            pixels_in: pictures * pixels,
            sound_in: self.sounds.iter().copied().max().unwrap_or_default(),
            ..MediaAmounts::default()
        }
    }

    /// Whether any request has a picture.
    pub fn has_pictures(&self) -> bool {
        self.counts.iter().any(|count| *count > 0)
    }

    /// What the request of that number has.
    pub(crate) fn media(&self, draws: &Draws, number: u64) -> Media {
        let pictures = self.drawn(draws, number);
        Media {
            pictures: pictures.len() as u64,
            pixels: pictures.iter().map(|it| u64::from(it.width) * u64::from(it.height)).sum(),
            sound_ns: self.sound(draws, number).map_or(0, |(length, _)| length.as_nanos()),
        }
    }

    /// Puts them before the text of the last message of the user. That the dialect has a place for them was looked at when the run was
    /// resolved.
    pub(crate) fn put_in(&self, dialect: Dialect, draws: &Draws, number: u64, request: &mut ChatRequest) {
        let format = if let Pictures::Made(_, format) = &self.pictures { *format } else { PictureFormat::default() };
        let pictures = self.drawn(draws, number).into_iter().map(|mut drawn| {
            let (media_type, base64) = match drawn.file {
                Some((size, text)) => (size.media_type, text.clone()),
                None => {
                    let bytes = mosaic(format, drawn.width, drawn.height, &mut drawn.content);
                    (format.media_type(), to_base64(&bytes))
                }
            };
            Content::Image(Image::Data { media_type: media_type.to_owned(), base64 })
        });
        let sound = self.sound(draws, number);
        let sound =
            sound.and_then(|(length, mut rng)| sound_part(dialect, &to_base64(&made_up(length, HEARD_RATE, &mut rng))));
        let parts: Vec<Content> = pictures.chain(sound).collect();
        match request.messages.iter_mut().rev().find(|message| message.role == Role::User) {
            Some(message) => drop(message.content.splice(0..0, parts)),
            None => request.messages.push(Message { role: Role::User, content: parts }),
        }
    }

    fn drawn(&self, draws: &Draws, number: u64) -> Vec<Drawn<'_>> {
        let mut choice = draws.plan.child("pictures").nth(number);
        let count = self.counts.get(choice.below(self.counts.len().max(1) as u64) as usize).copied().unwrap_or(0);
        let of_place = |rng: &Rng, place: u32| rng.child("own pictures").nth(number).nth(u64::from(place));
        let of_pool = |rng: &Rng, pooled: u64| rng.child("shared pictures").nth(pooled);
        let draw = |place: u32| {
            let is_shared = choice.chance(self.shared);
            let pooled = choice.below(u64::from(self.pool.max(1)));
            let drawn_by = |rng: &Rng| if is_shared { of_pool(rng, pooled) } else { of_place(rng, place) };
            let (mut plan, content) = (drawn_by(&draws.plan), drawn_by(&draws.content));
            match &self.pictures {
                Pictures::Made(sizes, _) => {
                    let (width, height) = size_of(sizes, plan.unit());
                    Drawn { content, width, height, file: None }
                }
                Pictures::Files(files) => {
                    let file = &files.files[plan.below(files.files.len() as u64) as usize];
                    Drawn { content, width: file.0.width, height: file.0.height, file: Some(file) }
                }
            }
        };
        (0..count).map(draw).collect()
    }

    /// Length of a request's sound, and what it is made from.
    fn sound(&self, draws: &Draws, number: u64) -> Option<(Span, Rng)> {
        let mut plan = draws.plan.child("sound").nth(number);
        let length = *self.sounds.get(plan.below(self.sounds.len().max(1) as u64) as usize)?;
        Some((length, draws.content.child("sound").nth(number)))
    }
}

fn most_pixels(sizes: &[SizeShare]) -> u64 {
    sizes.iter().map(|size| u64::from(size.width) * u64::from(size.height)).max().unwrap_or(0)
}

/// The size at a place from 0 to 1 of all of them laid one after another.
fn size_of(sizes: &[SizeShare], place: f64) -> (u32, u32) {
    let mut left = place * sizes.iter().map(|size| size.weight).sum::<f64>();
    let found = sizes.iter().find(|size| {
        left -= size.weight;
        left < 0.0
    });
    found.or(sizes.last()).map_or((1, 1), |size| (size.width, size.height))
}

fn sizes_text(sizes: &[SizeShare]) -> String {
    let total: f64 = sizes.iter().map(|size| size.weight).sum();
    let text = |size: &SizeShare| match sizes.len() {
        1 => format!("{}x{}", size.width, size.height),
        _ => format!("{}x{} ({:.0} %)", size.width, size.height, 100.0 * size.weight / total),
    };
    sizes.iter().map(text).collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn made(counts: &[u32], shared: f64) -> Attachments {
        let size = |width, height, weight| SizeShare { width, height, weight };
        Attachments {
            counts: counts.to_vec(),
            pictures: Pictures::Made(vec![size(64, 32, 3.0), size(16, 16, 1.0)], PictureFormat::Png),
            shared,
            pool: 2,
            sounds: Vec::new(),
        }
    }

    fn draws() -> Draws {
        Draws { plan: Rng::root(5), content: Rng::root(6) }
    }

    fn sent(attachments: &Attachments, dialect: Dialect, number: u64) -> Message {
        let messages = vec![Message::text(Role::System, "s"), Message::text(Role::User, "look")];
        let mut request = ChatRequest { messages, ..ChatRequest::default() };
        attachments.put_in(dialect, &draws(), number, &mut request);
        request.messages.remove(1)
    }

    fn pictures(attachments: &Attachments, numbers: std::ops::Range<u64>) -> Vec<Content> {
        let of = |number| sent(attachments, Dialect::OpenAiChat, number).content.into_iter();
        numbers.flat_map(of).filter(|content| matches!(content, Content::Image(_))).collect()
    }

    #[test]
    fn every_picture_differs_unless_it_is_shared_and_the_same_number_gives_the_same() {
        let own = pictures(&made(&[2], 0.0), 0..50);
        let different: HashSet<String> = own.iter().map(|content| format!("{content:?}")).collect();
        assert_eq!((own.len(), different.len()), (100, 100));
        assert_eq!(own, pictures(&made(&[2], 0.0), 0..50));
        let shared = pictures(&made(&[2], 1.0), 0..50);
        let different: HashSet<String> = shared.iter().map(|content| format!("{content:?}")).collect();
        assert_eq!((shared.len(), different.len()), (100, 2));
    }

    #[test]
    fn what_is_said_of_a_request_is_what_it_brings() {
        let attachments =
            Attachments { sounds: vec![Span::from_millis(500), Span::from_secs(1)], ..made(&[0, 1, 3], 0.2) };
        let (mut counts, mut seconds) = (HashSet::new(), HashSet::new());
        for number in 0..60 {
            let said = attachments.media(&draws(), number);
            let message = sent(&attachments, Dialect::OpenAiChat, number);
            let sizes = message.content.iter().filter_map(|content| match content {
                Content::Image(Image::Data { base64, .. }) => tokrate_wire::media::picture_size_of_base64(base64),
                _ => None,
            });
            let sizes: Vec<PictureSize> = sizes.collect();
            assert_eq!(sizes.len() as u64, said.pictures);
            assert_eq!(sizes.iter().map(PictureSize::pixels).sum::<u64>(), said.pixels);
            let sound = message.content.iter().find_map(|content| match content {
                Content::Other(json) => tokrate_wire::media::sound_of(json),
                _ => None,
            });
            assert_eq!(sound.map(|(length, _)| length.as_nanos()), Some(said.sound_ns));
            assert_eq!(message.content.last(), Some(&Content::Text("look".to_owned())));
            counts.insert(said.pictures);
            seconds.insert(said.sound_ns);
        }
        assert_eq!((counts.len(), seconds.len()), (3, 2));
        assert_eq!(
            attachments.text(),
            "0 or 1 or 3 images of 64x32 (75 %), 16x16 (25 %) (png), 20 % of them out of a pool of 2 and 0.5 or 1 s of sound (wav)"
        );
    }

    #[test]
    fn pictures_of_files_are_drawn_and_named_by_their_content() {
        let file = |seed| mosaic(PictureFormat::Jpeg, 24, 8, &mut Rng::root(seed));
        let files = [("a.jpg".to_owned(), file(1)), ("b.jpg".to_owned(), file(2))];
        let read = PictureFiles::new("photos", &files).expect("pictures");
        let attachments = Attachments { pictures: Pictures::Files(read.clone()), ..made(&[1], 0.0) };
        let different: HashSet<String> =
            pictures(&attachments, 0..40).iter().map(|content| format!("{content:?}")).collect();
        assert_eq!(different.len(), 2);
        assert!(different.iter().all(|content| content.contains("image/jpeg")));
        assert!(attachments.text().starts_with("1 image from photos (2 files, "), "{}", attachments.text());
        assert_ne!(read, PictureFiles::new("photos", &files[..1]).expect("a picture"));
        let refused = PictureFiles::new("photos", &[("c.txt".to_owned(), b"text".to_vec())]);
        assert!(refused.is_err_and(|error| error.starts_with("c.txt is no PNG")));
        assert!(PictureFiles::new("photos", &[]).is_err());
    }
}
