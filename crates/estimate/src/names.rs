//! Names of devices and models, matched by their words: vendors, memory sizes, formats and suffixes do not matter.

/// A name as words: lower case, letters apart from digits, so `llama3.1:8b` and `Llama-3.1-8B` are the same.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut last = ' ';
    for sign in name.to_lowercase().chars() {
        let joins = match (last, sign) {
            (a, b) if a.is_ascii_digit() && b.is_alphanumeric() => true,
            (a, b) if a.is_alphabetic() && b.is_alphabetic() => true,
            ('.', b) => b.is_ascii_digit(),
            (a, '.') => a.is_ascii_digit(),
            _ => false,
        };
        let kept = sign.is_alphanumeric() || (sign == '.' && joins);
        match words.last_mut() {
            Some(word) if joins && kept => word.push(sign),
            _ if kept => words.push(sign.to_string()),
            _ => {}
        }
        last = if kept { sign } else { ' ' };
    }
    words.into_iter().map(|word| word.trim_end_matches('.').to_owned()).filter(|word| !word.is_empty()).collect()
}

/// Words that name a vendor, a form or a format and tell no two devices or models apart.
const IDLE: &[&str] = &[
    "nvidia",
    "geforce",
    "amd",
    "radeon",
    "intel",
    "apple",
    "tesla",
    "gpu",
    "core",
    "cores",
    "tensor",
    "graphics",
    "edition",
    "server",
    "workstation",
    "instinct",
    "card",
    "gb",
    "gib",
    "x",
    "chip",
    "soc",
    "generation",
    "instruct",
    "chat",
    "it",
    "base",
    "hf",
    "meta",
    "gguf",
    "awq",
    "gptq",
    "mlx",
    "bnb",
    "fp",
    "bf",
    "f",
    "q",
    "iq",
    "k",
    "m",
    "s",
    "l",
    "xs",
    "xxs",
    "ud",
    "int",
    "bit",
    "nvfp",
    "mxfp",
    "w",
    "a",
    "quantized",
    "community",
    "unsloth",
    "bartowski",
    "thinking",
    "preview",
    "latest",
    "dynamic",
    "imatrix",
    "mxfp4",
    "rtx",
    "memory",
    "unified",
    "sxm",
    "ghz",
    "dgx",
    "hgx",
    "v",
    "hbm",
    "e",
    "static",
    "pertensor",
    "perchannel",
];

/// Whether a word tells nothing: an idle word, a memory size, a count, a format's bits, a release's date.
fn idle(word: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.chars().all(|sign| sign.is_ascii_digit() || sign == '.');
    IDLE.contains(&word)
        || ["gb", "gib", "c", "x", "bit", "core", "nm", "w"]
            .iter()
            .any(|end| word.strip_suffix(end).is_some_and(digits))
        || digits(word)
}

/// How well a name fits an alias: `None` when a word of the alias is missing or a word of the name that tells something
/// is left over; else the number of words of the alias.
fn fit(name: &[String], alias: &[String]) -> Option<usize> {
    let mut left: Vec<(usize, &String)> = name.iter().enumerate().collect();
    for word in alias {
        let position = left.iter().position(|(_, other)| *other == word)?;
        left.remove(position);
    }
    // A number right after the family's name is its version: Mistral 9 is not Mistral.
    let version = |place: usize, word: &str| place == 1 && word.parse::<f64>().is_ok();
    left.iter().all(|(place, word)| idle(word) && !version(*place, word)).then_some(alias.len())
}

/// The place of the item whose aliases (`a|b|c`) fit a name best; a tie goes to the earlier one.
pub fn find<'a>(name: &str, items: impl Iterator<Item = &'a str>) -> Option<usize> {
    let last = name.rsplit('/').next().unwrap_or(name);
    let name = words(last);
    let mut best: Option<(usize, usize)> = None;
    for (place, aliases) in items.enumerate() {
        let fits = aliases.split('|').filter_map(|alias| fit(&name, &words(alias))).max();
        if let Some(length) = fits
            && best.is_none_or(|(_, other)| length > other)
        {
            best = Some((place, length));
        }
    }
    best.map(|(place, _)| place)
}

/// The place of the item of which a text speaks, such as a file's name: the longest alias whose letters and digits are those of some words of
/// the text one after another, written together or apart. Only aliases of a letter and a digit at least, so that no common word is one.
pub fn mentioned<'a>(text: &str, items: impl Iterator<Item = &'a str>) -> Option<usize> {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let is_said = |alias: &str| {
        (0..words.len()).any(|from| (from + 1..=words.len().min(from + 5)).any(|to| words[from..to].concat() == alias))
    };
    let mut best: Option<(usize, usize)> = None;
    for (place, aliases) in items.enumerate() {
        let plain =
            |alias: &str| alias.to_lowercase().chars().filter(|sign| sign.is_alphanumeric()).collect::<String>();
        let has = |alias: &str, of: fn(&char) -> bool| alias.chars().any(|sign| of(&sign));
        let tells = |alias: &String| has(alias, char::is_ascii_digit) && has(alias, |sign| sign.is_alphabetic());
        let longest = aliases.split('|').map(plain).filter(tells).filter(|alias| is_said(alias)).map(|a| a.len()).max();
        if let Some(length) = longest
            && best.is_none_or(|(_, other)| length > other)
        {
            best = Some((place, length));
        }
    }
    best.map(|(place, _)| place)
}

/// Up to three names that share most with an unknown one.
pub fn nearest<'a>(name: &str, items: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<&'a str> {
    let name = words(name.rsplit('/').next().unwrap_or(name));
    let shared = |aliases: &str| {
        let count = |alias: &str| {
            let alias = words(alias);
            let same = alias.iter().filter(|word| name.contains(word)).count() as f64;
            2.0 * same / (alias.len() + name.len()).max(1) as f64
        };
        aliases.split('|').map(count).fold(0.0, f64::max)
    };
    let mut scored: Vec<(f64, &str)> = items.map(|(shown, aliases)| (shared(aliases), shown)).collect();
    scored.retain(|(score, _)| *score > 0.0);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(3).map(|(_, shown)| shown).collect()
}

/// Devices and their name, of a name that counts them: `4xh100-sxm`, `8 x H200`.
pub fn counted(name: &str) -> Option<(u32, &str)> {
    let name = name.trim();
    let digits = name.find(|sign: char| !sign.is_ascii_digit())?;
    let count = name[..digits].parse().ok()?;
    let rest = name[digits..].trim_start();
    let rest = rest.strip_prefix(['x', 'X', '×', '*'])?.trim_start();
    (!rest.is_empty()).then_some((count, rest))
}

/// The memory size in a device's name, GB: `24GB`, `24.0GB`, `24 GB`.
pub fn memory_gb(name: &str) -> Option<f64> {
    let lower = name.to_lowercase();
    let before = lower.split("gb").next().filter(|before| before.len() < lower.len())?.trim_end();
    let from = before.rfind(|sign: char| !(sign.is_ascii_digit() || sign == '.')).map_or(0, |at| at + 1);
    before[from..].parse().ok().filter(|size: &f64| *size > 0.0)
}

/// Parameters in a model's name, in billions: total, and active where it says `-A3B`.
pub fn params_b(name: &str) -> Option<(f64, Option<f64>)> {
    let all = words(name.rsplit('/').next().unwrap_or(name));
    let size = |word: &str| word.strip_suffix('b').and_then(|digits| digits.parse::<f64>().ok()).filter(|x| *x > 0.0);
    let place = all.iter().position(|word| size(word).is_some())?;
    let total = size(&all[place])?;
    let active = all.get(place + 1).filter(|word| *word == "a").and_then(|_| size(all.get(place + 2)?));
    Some((total, active))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_whatever_its_form() {
        let devices =
            ["rtx 3080|3080", "rtx 3080 ti|3080 ti", "m1 max", "m1", "h100 sxm|h100", "h100 pcie", "gb10|dgx spark"];
        let of = |name: &str| find(name, devices.iter().copied()).map(|place| devices[place]);
        assert_eq!(of("GeForce RTX 3080 Ti 12GB"), Some("rtx 3080 ti|3080 ti"));
        assert_eq!(of("3080 10GB"), Some("rtx 3080|3080"));
        assert_eq!(of("M1 Max 32-Core GPU 64GB"), Some("m1 max"));
        assert_eq!(of("h100-sxm"), Some("h100 sxm|h100"));
        assert_eq!(of("H100 PCIe 80GB"), Some("h100 pcie"));
        assert_eq!(of("NVIDIA GB10 (DGX Spark)"), Some("gb10|dgx spark"));
        assert_eq!(of("RTX 3080 Laptop"), None);
        let models = ["llama 3.1 8b", "llama 3.1 70b|llama 70b|llama 3.3 70b", "qwen 3 8b", "qwen 3 30b a3b"];
        let of = |name: &str| find(name, models.iter().copied());
        assert_eq!(of("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf"), Some(0));
        assert_eq!(of("llama-3.3-70b"), Some(1));
        assert_eq!(of("meta-llama/Llama-3.1-70B"), Some(1));
        assert_eq!(of("qwen3:30b-a3b"), Some(3));
        assert_eq!(of("Qwen3-8B-Q4_K_M.gguf"), Some(2));
        assert_eq!(of("some-other-8b"), None);
        assert_eq!(of("llama-9-70b"), None);
    }

    #[test]
    fn a_device_is_found_in_a_files_name() {
        let devices = ["rtx pro 6000|pro 6000", "rtx 4090|4090", "h100 sxm|h100", "l4", "l40s"];
        let of = |text: &str| mentioned(text, devices.iter().copied());
        assert_eq!(of("runs/rtxpro6000-llama31-8b-tp1.json"), Some(0));
        assert_eq!(of("bench/examples/RTX_PRO_6000/qwen3-32b"), Some(0));
        assert_eq!(of("rtx4090-llama31-8b-tp1.csv"), Some(1));
        assert_eq!(of("h100_sxm.json"), Some(2));
        assert_eq!((of("trace.csv"), of("llama-4-l4.csv"), of("4090.csv")), (None, Some(3), None));
    }

    #[test]
    fn a_count_before_a_device_is_told_from_its_name() {
        assert_eq!(counted("4xh100-sxm"), Some((4, "h100-sxm")));
        assert_eq!(counted("8 x H200"), Some((8, "H200")));
        for name in ["h100", "3080 10GB", "4x", "4090", "x4"] {
            assert_eq!(counted(name), None, "{name}");
        }
    }

    #[test]
    fn sizes_are_read_from_names() {
        assert_eq!(memory_gb("Apple M4 Pro 24.0GB"), Some(24.0));
        assert_eq!(memory_gb("RTX 3090"), None);
        assert_eq!(params_b("Foo-30B-A3B-Q4"), Some((30.0, Some(3.0))));
        assert_eq!(params_b("foo"), None);
    }
}
