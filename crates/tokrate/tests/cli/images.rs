//! Images and sound as input through the binary: what the engine saw of them, what they cost in time and tokens, and what is compared.
//!
//! Invariant: the engine's own log is the truth of what was sent, and its law that of how long it takes.

use crate::folder::Folder;
use crate::loopback_truth::{engine, quick, url};
use crate::tool::{self, Bench, folded, number};
use serde_json::Value;
use tokrate_core::Span;
use tokrate_host::RunningHost;
use tokrate_sim::{Encoder, Law};

/// 10 million pixels and 100 s of sound a second: 64 by 48 pixels take 0.3 ms, 640 by 480 take 30.72 ms.
fn sees(caches: bool) -> Law {
    Law { encoder: Encoder { pixels_per_second: 1e7, sound_per_second: 100.0, caches }, ..quick() }
}

/// Runs a bench; everything but what is given is small.
fn measure(folder: Folder, url: &str, more: &str) -> Bench {
    let arguments = format!(
        "bench --url {url} --model sim --calibration off --no-probe --json record.json --jsonl rows.jsonl --input-tokens 30 \
         --output-tokens 4 --warmup 0 {more}"
    );
    let finished = tool::run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
    Bench::read(folder, finished)
}

/// Holds every row against what the engine saw of its request; gives the pictures of each.
fn sent(host: &RunningHost, rows: &[Value]) -> Vec<u64> {
    let truth = host.truth();
    let of = |row: &Value| {
        let served = truth.request(row["request_id"].as_str().expect("an id")).expect("the engine saw it");
        let media = &row["media"];
        assert_eq!(u64::from(served.pictures), number(media, "pictures"), "{row}");
        assert_eq!(
            (served.pixels, served.sound.as_nanos()),
            (number(media, "pixels"), number(media, "sound_ns")),
            "{row}"
        );
        assert_eq!(u64::from(served.input_tokens), number(row, "input_reported"), "{row}");
        assert_eq!(number(row, "input_asked"), 30, "images are no text: {row}");
        u64::from(served.pictures)
    };
    rows.iter().map(of).collect()
}

#[test]
fn images_reach_the_engine_in_every_dialect_that_has_them_and_cost_what_its_law_says() {
    let host = engine(sees(false));
    let root = format!("http://{}", host.address());
    let v1 = url(&host);
    for (dialect, url, more) in [
        ("openai-chat", &v1, "--html report.html --csv levels.csv"),
        ("openai-chat", &v1, "--image-format jpeg"),
        ("openai-responses", &v1, ""),
        ("anthropic", &root, ""),
        ("gemini", &root, "--image-format jpeg"),
        ("ollama-chat", &root, ""),
        ("ollama-generate", &root, ""),
        ("bedrock-converse", &root, ""),
    ] {
        let arguments = format!("--images 0,1,3 --image-size 640x480 --dialect {dialect} -c 2 -n 24 {more}");
        let bench = measure(Folder::new(&format!("images-{dialect}{}", more.len())), url, &arguments);
        bench.expect(0, &[]);
        let counts = sent(&host, &bench.rows);
        assert!([0, 1, 3].iter().all(|count| counts.contains(count)), "{dialect}: {counts:?}");
        let phase = &bench.record.phases[0];
        assert!(phase.conditions.media.starts_with("0 or 1 or 3 images of 640x480 ("), "{}", phase.conditions.media);
        let media = phase.media.as_ref().expect("there were images");
        assert_eq!((media.images, media.pixels), (counts.iter().sum(), counts.iter().sum::<u64>() * 640 * 480));
        // 23 by 18 squares of 28 pixels.
        let tokens = media.tokens_per_image.expect("requests differ");
        assert!((tokens.value - 414.0).abs() < 1e-6 && tokens.error < 1e-6, "{tokens:?}");
        // Each takes 30.72 ms and the reading of its tokens; a machine may be late, never early.
        for row in &bench.rows {
            let least = number(&row["media"], "pictures") * 30_720_000 + 10_000_000;
            assert!(number(row, "ttft_ns") >= least, "{dialect}: {row}");
        }
        assert!(phase.gate.is_empty() && phase.failures.is_empty());
    }
}

#[test]
fn the_page_and_the_tables_show_what_one_more_image_adds() {
    let host = engine(sees(false));
    let more = "--images 0,1,3 --image-size 640x480 -c 2 -n 30 --wide --html report.html --csv levels.csv --assert image_throughput.per_second>0.1 \
                --assert megapixel_throughput.per_second>0.03";
    let bench = measure(Folder::new("images-page"), &url(&host), more);
    bench.expect(0, &[]);
    assert_eq!(bench.record.assertions.len(), 2);
    let media = bench.record.phases[0].media.as_ref().expect("there were images");
    let (images, pixels) = (media.images_per_second.expect("a window"), media.megapixels_per_second.expect("a window"));
    assert!((pixels / images - 0.3072).abs() < 1e-9, "{images} {pixels}");
    let slope = media.per_image_ms.expect("requests differ").value;
    assert!(slope > 25.0 && slope < 200.0, "about 31 ms an image on a machine with time: {slope}");
    let text = folded(&bench.finished.stdout);
    assert!(
        text.contains("images a second (") && text.contains("one more image, until the first token (ms)"),
        "{text}"
    );
    let page = bench.folder.read("report.html");
    assert!(
        page.contains("Time until the first token, by images of a request") && page.contains("By images of a request")
    );
    let csv = bench.folder.read("levels.csv");
    let head = csv.lines().next().expect("a head");
    assert!(["media", "images_per_second", "megapixels_per_second"].iter().all(|name| head.contains(name)), "{head}");
    let other = measure(Folder::new("images-other"), &url(&host), "--images 0,1,3 --image-size 320x480 -c 2 -n 30");
    let (first, second) = (bench.folder.join("record.json"), other.folder.join("record.json"));
    let compared = tool::run(&bench.folder, &["compare", &first.to_string_lossy(), &second.to_string_lossy()]);
    assert_ne!(compared.code, Some(0), "other sizes are other measurements: {compared:?}");
}

#[test]
fn sound_reaches_the_engine_where_there_is_a_place_for_it() {
    let host = engine(sees(false));
    let root = format!("http://{}", host.address());
    for (dialect, url) in [("openai-chat", url(&host)), ("gemini", root)] {
        let arguments = format!("--audio-input 0.5,2s --images 1 --image-size 32x32 --dialect {dialect} -c 2 -n 12");
        let bench = measure(Folder::new(&format!("sound-{dialect}")), &url, &arguments);
        bench.expect(0, &[]);
        sent(&host, &bench.rows);
        let lengths: std::collections::BTreeSet<u64> =
            bench.rows.iter().map(|row| number(&row["media"], "sound_ns")).collect();
        assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [500_000_000, 2_000_000_000]);
        let media = bench.record.phases[0].media.as_ref().expect("there was sound");
        assert!(media.sound_per_second.is_some_and(|rate| rate > 0.0) && media.sound_seconds >= 6.0, "{media:?}");
    }
}

#[test]
fn an_encoder_knows_only_images_that_were_asked_to_be_shared() {
    let host = engine(Law { base_delay: Span::ZERO, ..sees(true) });
    // 1,000 by 1,000 pixels take 100 ms unless they are known.
    let ttft = |shared: &str| {
        let more = format!("--images 1 --image-size 1000x1000 --images-shared {shared} -c 1 -n 12");
        let bench = measure(Folder::new(&format!("images-shared-{}", shared.len())), &url(&host), &more);
        bench.expect(0, &[]);
        let mut times: Vec<u64> = bench.rows.iter().map(|row| number(row, "ttft_ns")).collect();
        times.sort_unstable();
        times
    };
    assert!(ttft("0%")[0] >= 100_000_000, "no two are alike");
    let shared = ttft("100%");
    assert!(shared[0] < 100_000_000, "all but the first were known: {shared:?}");
    assert!(shared[11] >= 100_000_000, "{shared:?}");
}

#[test]
fn images_of_a_folder_are_sent_as_they_are() {
    let host = engine(sees(false));
    let folder = Folder::new("images-files");
    let photos = folder.join("photos");
    std::fs::create_dir(&photos).expect("a folder");
    for (name, side) in [("a.png", 28_u32), ("b.png", 56)] {
        let bytes = tokrate_wire::media::mosaic(
            tokrate_wire::media::PictureFormat::Png,
            side,
            28,
            &mut tokrate_core::Rng::root(u64::from(side)),
        );
        std::fs::write(photos.join(name), bytes).expect("a file");
    }
    let bench = measure(folder, &url(&host), "--images 2 --images-from photos -c 1 -n 20");
    bench.expect(0, &[]);
    sent(&host, &bench.rows);
    let sizes: std::collections::BTreeSet<u64> = bench.rows.iter().map(|row| number(&row["media"], "pixels")).collect();
    assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [2 * 28 * 28, 3 * 28 * 28, 4 * 28 * 28]);
    assert!(bench.record.conditions.media.starts_with("2 images from photos (2 files, "));
}

#[test]
fn images_that_are_made_come_when_the_law_says_in_one_piece_and_one_by_one() {
    // 256 by 128 pixels with 5 steps take 16.384 ms.
    let host = engine(Law { pixel_steps_per_second: 1e7, ..quick() });
    let url = url(&host);
    for (more, partial, images) in [
        ("--batch 2", None, 2_u64),
        ("--batch 1 --partial-images 3", Some(3), 1),
        ("--batch 2 --partial-images 0", Some(0), 2),
    ] {
        let arguments = format!(
            "bench --url {url} --model sim --calibration off --no-probe --json record.json --jsonl rows.jsonl --input-tokens 30 --warmup 0 \
             --task images --image-size 256x128 --body steps=5 -c 1 -n 10 --wide --html report.html --csv levels.csv \
             --assert image_throughput.per_second>0.1 --assert time_to_first_image_p50<5s {more}"
        );
        let folder = Folder::new(&format!("images-made-{}", more.len()));
        let finished = tool::run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
        let bench = Bench::read(folder, finished);
        bench.expect(0, &[]);
        let phase = &bench.record.phases[0];
        assert_eq!((phase.conditions.task.as_str(), phase.conditions.media.as_str()), ("images", "of 256x128"));
        let partial_text = partial.map_or(String::new(), |partial| format!("partial_images={partial} "));
        assert_eq!(phase.conditions.options, format!("{partial_text}steps=5"));
        let media = phase.media.as_ref().expect("images came");
        assert_eq!((media.images, media.pixels), (10 * images, 10 * images * 256 * 128));
        assert_eq!(phase.items.as_ref().map(|items| items.n), Some(10 * images));
        let truth = host.truth();
        for row in &bench.rows {
            let served = truth.request(row["request_id"].as_str().expect("an id")).expect("the engine saw it");
            assert_eq!(u64::from(served.input_tokens), number(row, "input_asked"), "{row}");
            let first = served.writes.iter().find(|write| write.tokens > 0).expect("something was written");
            let (sent, first_image) = (number(row, "sent_at_ns"), number(row, "first_image_ns"));
            assert!(sent + first_image >= first.written_at.as_nanos(), "nothing comes before it is written: {row}");
            // The first piece, and all of them; the reading of the prompt and the delay come before.
            let whole = images * 16_384_000;
            let least = if let Some(partial) = partial { 16_384_000 / (partial + 1) } else { whole };
            assert!(first_image >= 10_000_000 + least, "{row}");
            assert!(number(row, "e2e_ns") >= 10_000_000 + whole && first_image <= number(row, "e2e_ns"), "{row}");
            assert_eq!(
                served.writes.iter().map(|write| u64::from(write.tokens)).sum::<u64>(),
                images * (partial.unwrap_or(0) + 1)
            );
        }
        let text = folded(&bench.finished.stdout);
        assert!(text.contains("an image; ") && text.contains("images a second ("), "{text}");
        let page = bench.folder.read("report.html");
        assert!(
            page.contains("A request asks for images of a prompt")
                && page.contains("Every request asks for images of 256x128")
        );
        let csv = bench.folder.read("levels.csv");
        assert!(csv.lines().next().is_some_and(|head| head.contains("time_to_first_image_p50_ms")), "{csv}");
    }
    let linked = format!(
        "bench --url {url} --model sim --calibration off --no-probe --json record.json --jsonl rows.jsonl --task images --image-size 64x64 \
         --body response_format=\"url\" -c 1 -n 3"
    );
    let folder = Folder::new("images-linked");
    let finished = tool::run(&folder, &linked.split_whitespace().collect::<Vec<&str>>());
    let bench = Bench::read(folder, finished);
    bench.expect(0, &[]);
    let media = bench.record.phases[0].media.as_ref().expect("images came");
    assert_eq!((media.pixels, media.megapixels_per_second), (0, None), "the size of what is only linked is not known");
    let text = folded(&bench.finished.stdout);
    assert!(text.contains("images a second") && !text.contains("megapixels)"), "{text}");
}

#[test]
fn an_image_that_fails_in_its_stream_is_a_failure_with_the_servers_words() {
    let host = engine(Law { pixel_steps_per_second: 1e8, ..quick() });
    let arguments = format!(
        "bench --url {} --model sim --calibration off --no-probe --json record.json --jsonl rows.jsonl --task images --image-size 64x64 \
         --partial-images 2 -c 1 -n 4 --warmup 0 --keep-going --header x-tokrate-fault:error_event@2=1",
        url(&host)
    );
    let folder = Folder::new("images-failed");
    let finished = tool::run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
    let bench = Bench::read(folder, finished);
    assert_eq!(bench.record.phases[0].counts.failed, 4, "{:?}", bench.finished);
    assert!(bench.rows.iter().all(|row| row["failure"]["message"].as_str().is_some_and(|message| !message.is_empty())));
}
