//! Every text of a page has a contrast of at least 4.5 with what it stands on, in both themes (WCAG 2.2, 1.4.3).

use crate::svg::STYLE;

const PAGE: &str = include_str!("../page.css");
const MIN_CONTRAST: f64 = 4.5;

type Colour = [f64; 3];

fn colour(hex: &str) -> Colour {
    let digits = hex.trim_start_matches('#');
    let digits: String =
        if digits.len() == 3 { digits.chars().flat_map(|c| [c, c]).collect() } else { digits.to_owned() };
    std::array::from_fn(|i| f64::from(u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("a hex colour")) / 255.0)
}

fn luminance(colour: Colour) -> f64 {
    let [r, g, b] = colour.map(|c| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) });
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

fn contrast(a: Colour, b: Colour) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

fn over(top: Colour, opacity: f64, below: Colour) -> Colour {
    std::array::from_fn(|i| top[i] * opacity + below[i] * (1.0 - opacity))
}

/// The rules of a theme, the dark one's over the light one's: those that come later win.
fn rules(css: &str, dark: bool) -> Vec<(String, String)> {
    let at = css.find("@media screen and (prefers-color-scheme:dark)").expect("a dark theme");
    let open = at + css[at..].find('{').expect("a block") + 1;
    let mut depth = 1;
    let length = css[open..].find(|c| {
        depth += match c {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        depth == 0
    });
    let inside = &css[open..open + length.expect("it ends")];
    let plain = format!("{}{}", &css[..at], &css[open + inside.len() + 1..]);
    let all = if dark { plain + inside } else { plain };
    let mut rules = Vec::new();
    for rule in all.split('}') {
        let Some((selectors, body)) = rule.split_once('{') else { continue };
        for selector in selectors.split(',') {
            rules
                .extend(body.split(';').map(|declaration| (selector.trim().to_owned(), declaration.trim().to_owned())));
        }
    }
    rules
}

fn value(rules: &[(String, String)], selector: &str, property: &str) -> Colour {
    let found = rules.iter().rev().find_map(|(of, declaration)| {
        let (name, value) = declaration.split_once(':')?;
        (of == selector && name == property).then(|| value.to_owned())
    });
    colour(&found.unwrap_or_else(|| panic!("no {property} of {selector}")))
}

fn opacity(rules: &[(String, String)], selector: &str) -> f64 {
    let found = rules.iter().rev().find_map(|(of, declaration)| {
        (of == selector).then(|| declaration.strip_prefix("fill-opacity:"))?.map(|value| format!("0{value}"))
    });
    found.expect("an opacity").parse().expect("a number")
}

#[test]
fn every_text_of_a_page_can_be_read_in_both_themes() {
    let mut faint = Vec::new();
    let mut check = |what: String, text: Colour, ground: Colour| {
        let found = contrast(text, ground);
        if found < MIN_CONTRAST {
            faint.push(format!("{what}: {found:.2}"));
        }
    };
    for dark in [false, true] {
        let (page, chart) = (rules(PAGE, dark), rules(STYLE, dark));
        let theme = if dark { "dark" } else { "light" };
        for ground in ["--paper", "--tint"] {
            for text in ["--ink", "--soft", "--link", "--good", "--info", "--warning", "--bad"] {
                let of = |name| value(&page, ":root", name);
                check(format!("{theme} {text} on {ground}"), of(text), of(ground));
            }
        }
        let paper = value(&page, ":root", "--paper");
        let band = over(value(&chart, ".tk .band1", "fill"), opacity(&chart, ".tk .band1"), paper);
        for (name, ground) in [("paper", paper), ("a band", band)] {
            for text in [".tk text", ".tk .axis", ".tk .tick", ".tk .faint", ".tk .note", ".tk text.bad"] {
                check(format!("{theme} {text} on {name}"), value(&chart, text, "fill"), ground);
            }
        }
        // Cells of a heat map: dark text on the three light tints, light text on the others.
        for tint in 0..6 {
            let text = if tint < 3 { ".tk text" } else { ".tk text.light" };
            let ground = value(&chart, &format!(".tk .tint{tint}"), "fill");
            check(format!("{theme} {text} on tint {tint}"), value(&chart, text, "fill"), ground);
        }
    }
    assert!(faint.is_empty(), "{faint:#?}");
    assert!((contrast(colour("#fff"), colour("#000000")) - 21.0).abs() < 1e-9, "the formula");
    assert!(contrast(colour("#777"), colour("#fff")) < MIN_CONTRAST, "it can fail");
}
