//! The vocabulary of simulated answers: English words that are one o200k token each, with the space before them.
//!
//! Invariant: any sequence of these words has exactly as many o200k tokens as words.

use tokrate_core::Rng;

/// A range of words of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Words {
    seed: u64,
    first: u32,
    count: u32,
    /// Whether the text repeats its first words.
    looped: bool,
}

impl Words {
    /// Period of a repeating text, in words.
    pub const LOOP: u32 = 4;

    /// Words shared by answers with the same beginning: at least 256 bytes.
    pub const START: u32 = 100;

    /// The `count` words from position `first` on of the text of a seed.
    pub fn new(seed: u64, first: u32, count: u32) -> Words {
        Words { seed, first, count, looped: false }
    }

    /// The same for a text that repeats its first [`Words::LOOP`] words.
    #[must_use]
    pub fn looped(self) -> Words {
        Words { looped: true, ..self }
    }

    /// The number of words, which is the number of tokens.
    pub fn count(self) -> u32 {
        self.count
    }

    /// The words in order.
    pub fn iter(self) -> impl Iterator<Item = &'static str> {
        let text = Rng::root(self.seed);
        let places = self.first..self.first.saturating_add(self.count);
        let places = places.map(move |place| if self.looped { place % Words::LOOP } else { place });
        places.map(move |place| WORDS[(text.nth(u64::from(place)).next_u64() % WORDS.len() as u64) as usize])
    }

    /// Appends the words to a text.
    pub fn push_to(self, text: &mut String) {
        text.extend(self.iter());
    }
}

/// Common English words with the space before them, each one token of o200k_base.
#[rustfmt::skip]
pub const WORDS: &[&str] = &[
    " the", " of", " and", " to", " in", " is", " that", " for", " it", " as", " was", " with", " be", " by", " on",
    " not", " he", " his", " but", " at", " are", " this", " have", " from", " or", " had", " an", " they", " which",
    " one", " you", " were", " all", " her", " she", " there", " would", " their", " we", " him", " been", " has",
    " when", " who", " will", " no", " more", " if", " out", " so", " up", " said", " what", " its", " about",
    " than", " into", " them", " can", " only", " other", " time", " new", " some", " could", " these", " two",
    " may", " first", " then", " do", " any", " like", " my", " now", " over", " such", " our", " man", " me",
    " even", " most", " made", " after", " also", " did", " many", " off", " before", " must", " well", " back",
    " through", " years", " where", " much", " your", " way", " down", " should", " because", " long", " each",
    " just", " state", " those", " people", " too", " little", " good", " world", " make", " very", " year", " still",
    " see", " work", " life", " being", " men", " come", " how", " between", " might", " while", " know", " against",
    " water", " number", " part", " word", " place", " right", " think", " great", " help", " low", " line",
    " differ", " turn", " cause", " same", " mean", " move", " boy", " old", " form", " sentence", " set", " three",
    " want", " air", " play", " small", " end", " put", " home", " read", " hand", " port", " large", " spell",
    " add", " land", " here", " big", " high", " follow", " act", " why", " ask", " change", " went", " light",
    " kind", " need", " house", " picture", " try", " again", " animal", " point", " mother", " near", " build",
    " self", " earth", " father", " head", " stand", " own", " page", " country", " found", " answer", " school",
    " grow", " study", " learn", " plant", " cover", " food", " sun", " four", " thought", " let", " keep", " eye",
    " never", " last", " door", " city", " tree", " cross", " since", " hard", " start", " story", " saw", " far",
    " sea", " draw", " left", " late", " run", " press", " close", " night", " real", " few", " north", " open",
    " seem", " together", " next", " white", " children", " begin", " got", " walk", " example", " ease", " paper",
    " often", " always", " music", " both", " mark", " book", " letter", " until", " mile", " river", " car", " feet",
    " care", " second", " group", " carry", " took", " rain", " eat", " room", " friend", " began", " idea", " fish",
    " mountain", " stop", " once", " base", " hear", " horse", " cut", " sure", " watch", " color", " face", " wood",
    " main", " enough", " plain", " girl", " usual", " young", " ready", " above", " ever", " red", " list",
    " though", " feel", " talk", " bird", " soon", " body", " dog", " family", " direct", " pose", " leave", " song",
    " measure", " product", " black", " short", " class", " wind", " question", " happen", " complete", " ship",
    " area", " half", " rock", " order", " fire", " south", " problem", " piece", " told", " knew", " pass", " top",
    " whole", " king", " size", " heard", " best", " hour", " better", " true", " during", " hundred", " remember",
    " step", " early", " hold", " west", " ground", " interest", " reach", " fast", " five", " sing", " listen",
    " six", " table", " travel", " less", " morning", " ten", " simple", " several", " toward", " war", " lay",
    " pattern", " slow", " center", " love", " person", " money", " serve", " appear", " road", " map", " science",
    " rule", " govern", " pull", " cold", " notice", " voice", " fall", " power", " town", " fine", " certain",
    " fly", " unit", " lead", " cry", " dark", " machine", " note", " wait", " plan", " figure", " star", " box",
    " noun", " field", " rest", " correct", " able", " pound", " done", " beauty", " drive", " stood", " contain",
    " front", " teach", " week", " final", " gave", " green", " quick", " develop", " sleep", " warm", " free",
    " minute", " strong", " special", " mind", " behind", " clear", " tail", " produce", " fact", " street", " inch",
    " nothing", " course", " stay", " wheel", " full", " force", " blue", " object", " decide", " surface", " deep",
    " moon", " island", " foot", " yet", " busy", " test", " record", " boat", " common", " gold", " possible",
    " plane", " age", " dry", " wonder", " laugh", " thousand", " ago", " ran", " check", " game", " shape", " yes",
    " hot", " miss", " brought", " heat", " snow", " bed", " bring", " sit", " perhaps", " fill", " east", " weight",
    " language", " among", " signal", " cloud", " garden", " window", " bridge", " market", " winter", " summer",
    " silver", " copper", " engine", " memory", " system", " server", " network", " data", " model", " value",
    " result", " reason", " method", " theory", " history", " nature", " energy", " matter", " space", " sound",
    " image", " level",
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use tokrate_tokens::{Encoding, count};

    #[test]
    fn each_word_is_one_token_and_listed_once() {
        let many: Vec<&&str> = WORDS.iter().filter(|word| count(Encoding::O200kBase, word) != 1).collect();
        assert!(many.is_empty(), "{many:?}");
        assert!(WORDS.iter().all(|word| word.starts_with(' ')));
        assert_eq!(WORDS.iter().collect::<BTreeSet<_>>().len(), WORDS.len());
        assert!(WORDS.len() > 300);
    }

    proptest! {
        #[test]
        fn any_run_of_words_has_as_many_tokens(seed in any::<u64>(), first in 0u32..5_000, words in 0u32..400) {
            for run in [Words::new(seed, first, words), Words::new(seed, first, words).looped()] {
                let mut text = String::new();
                run.push_to(&mut text);
                prop_assert_eq!(count(Encoding::O200kBase, &text), words as usize);
            }
        }

        #[test]
        fn runs_that_follow_each_other_make_the_whole(seed in any::<u64>(), cut in 0u32..50) {
            let (mut parts, mut whole) = (String::new(), String::new());
            Words::new(seed, 0, cut).push_to(&mut parts);
            Words::new(seed, cut, 50 - cut).push_to(&mut parts);
            Words::new(seed, 0, 50).push_to(&mut whole);
            prop_assert_eq!(parts, whole);
        }
    }
}
