//! Sound through the binary: when the first came, how long it plays, where a player runs dry, and what is compared and asserted.
//!
//! Invariant: the engine's own log is the truth of when sound was written and of how much there was.

use crate::folder::Folder;
use crate::loopback_truth::{engine, quick, url};
use crate::scripted::{Server, Then};
use crate::tool::{self, Bench, folded, number};
use std::io::Write;
use tokrate_sim::Law;

/// Runs a bench; everything but what is given is small.
fn measure(folder: Folder, url: &str, more: &str) -> Bench {
    let arguments = format!(
        "bench --url {url} --model sim --calibration off --no-probe --json record.json --jsonl rows.jsonl --warmup 0 {more}"
    );
    let finished = tool::run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
    Bench::read(folder, finished)
}

#[test]
fn speech_is_timed_from_its_first_sound_in_every_format_as_the_engine_wrote_it() {
    let host = engine(quick());
    for format in ["pcm", "wav", "mp3", "opus", "flac", "aac", "pcm --stream-format sse", "wav --stream-format sse"] {
        let name = format.replace(' ', "-");
        let more = format!(
            "--task speech --audio-format {format} --input-tokens 20 -c 2 -n 12 --html report.html --csv levels.csv"
        );
        let bench = measure(Folder::new(&format!("speech-{name}")), &url(&host), &more);
        assert_eq!(bench.finished.code, Some(0), "{format}: {:?}", bench.finished);
        let phase = &bench.record.phases[0];
        assert_eq!((phase.conditions.task.as_str(), phase.conditions.output_tokens, phase.audio.n), ("speech", 0, 12));
        assert!(phase.gate.is_empty() && phase.failures.is_empty(), "{format}: {:?}", phase.gate);
        let truth = host.truth();
        let (mut said, mut stalled) = (0.0, 0);
        for row in &bench.rows {
            let served = truth.request(row["request_id"].as_str().expect("an id")).expect("the engine saw it");
            let audio = &row["audio"];
            let tokens: u32 = served.writes.iter().map(|write| write.tokens).sum();
            assert_eq!(u64::from(tokens), (number(audio, "characters") * 12_500).div_ceil(15_000), "{row}");
            // Frames are filled up: an MP3's has 24 ms, one of AAC 42.7.
            let (plays, least) = (number(audio, "plays_ns"), u64::from(tokens) * 80_000_000);
            assert!((least..least + 43_000_000).contains(&plays), "{format}: {plays} {least}");
            said += plays as f64 / 1e9;
            // A player cannot begin before its first frame was written, nor the client see it.
            let first = served.writes.iter().find(|write| write.tokens > 0).expect("sound was written");
            let first_at = number(row, "sent_at_ns") + number(audio, "first_ns");
            assert!(first_at >= first.due_at.as_nanos(), "{format}: before it was made");
            if format.starts_with("pcm") || format.starts_with("wav") {
                let late = first_at as i64 - first.written_at.as_nanos() as i64;
                assert!((-1_000_000..50_000_000).contains(&late), "{format}: {late} ns behind the write");
            }
            assert!(number(audio, "first_ns") >= number(row, "ttfb_ns") && row["ttft_ns"].is_null(), "{row}");
            assert!(number(audio, "first_ns") <= number(row, "e2e_ns"), "{row}");
            assert_eq!(row["tokens_std"].as_u64(), Some(0), "{row}");
            stalled += u32::from(number(audio, "stalls") > 0);
        }
        // 80 ms of sound come each 5 ms; what a busy machine holds up are the two that are in flight.
        assert!(stalled <= 2, "{format}: {stalled} of 12 ran dry");
        assert!((phase.audio.said_seconds - said).abs() < 1e-6);
        let factor = phase.audio.real_time_factor.max.expect("answers");
        assert!(factor > 0.0 && factor < 1.0, "{factor}");
        let text = folded(&bench.finished.stdout);
        assert!(text.contains("first audio after") && text.contains("real-time factor"), "{text}");
        assert!(!text.contains("no time to first token") && !text.contains("output speed"), "it is no text: {text}");
        let page = bench.folder.read("report.html");
        assert!(page.contains("From request to sound") && page.contains("answers that stall"));
        let head = bench.folder.read("levels.csv");
        assert!(head.lines().next().is_some_and(|head| head.contains("time_to_first_audio_p50_ms")), "{head}");
    }
}

#[test]
fn a_player_runs_dry_where_tokens_come_slower_than_they_are_played() {
    // A token every 125 ms, each of which plays 80.
    let host = engine(Law { stream_tokens_per_second: 8.0, ..quick() });
    let bench = measure(Folder::new("speech-stalls"), &url(&host), "--task speech --input-tokens 3 -c 2 -n 6");
    let truth = host.truth();
    for row in &bench.rows {
        let served = truth.request(row["request_id"].as_str().expect("an id")).expect("the engine saw it");
        let written: Vec<u64> =
            served.writes.iter().filter(|write| write.tokens > 0).map(|write| write.written_at.as_nanos()).collect();
        // By the log: how far each token is behind a player that begins with the first.
        let behind = |(place, at): (usize, &u64)| (at - written[0]).saturating_sub(place as u64 * 80_000_000);
        let logged = written.iter().enumerate().map(behind).max().expect("tokens");
        let (audio, stalled) = (&row["audio"], number(&row["audio"], "stalled_ns"));
        assert!(written.len() > 4 && number(audio, "stalls") == written.len() as u64 - 1, "{row}");
        assert!(stalled.abs_diff(logged) < 30_000_000, "{stalled} ns, {logged} by the log");
        assert_eq!(number(audio, "first_stall_after_ns"), 80_000_000, "{row}");
    }
    let audio = &bench.record.phases[0].audio;
    assert!(audio.real_time_factor.min.is_some_and(|factor| factor > 1.0), "{:?}", audio.real_time_factor);
    let text = folded(&bench.finished.stdout);
    assert!(text.contains("6 of 6 answers stall a player"), "{text}");
}

#[test]
fn assertions_objectives_and_comparisons_take_figures_of_sound() {
    let host = engine(quick());
    let more = "--task speech --input-tokens 10 -c 1 -n 30 --slo real_time_factor<0.9 --slo time_to_first_audio<2s --assert real_time_factor.p50<1 --assert audio_throughput.seconds_per_second>1 --assert time_to_first_audio_p50<2s --assert stalled_time.max<10s";
    let one = measure(Folder::new("speech-asserted"), &url(&host), more);
    one.expect(0, &[]);
    assert_eq!(one.record.assertions.len(), 4);
    let goodput = one.record.phases[0].goodput.as_ref().expect("there were objectives");
    assert_eq!((goodput.met, goodput.of), (30, 30));
    let below = measure(
        Folder::new("speech-below"),
        &url(&host),
        "--task speech --input-tokens 10 -c 1 -n 30 --assert real_time_factor.p50<0.0001",
    );
    assert_eq!(below.finished.code, Some(1), "{}", below.finished.stdout);
    // A run and itself: of two runs one may well be slower than the other on a busy machine.
    let path = one.folder.join("record.json").to_string_lossy().into_owned();
    let compared =
        tool::run(&one.folder, &["compare", &path, &path, "--metric", "time_to_first_audio,real_time_factor"]);
    assert_eq!(compared.code, Some(0), "{compared:?}");
    assert!(
        compared.stdout.contains("first audio") || compared.stdout.contains("time to first audio"),
        "{}",
        compared.stdout
    );
}

#[test]
fn sound_that_does_not_say_how_long_it_plays_has_no_length_and_text_is_none() {
    let answer = |kind: &str, body: &str| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let unknown = answer("audio/x-other", "something else");
    let server = Server::start(move |_, stream| stream.write_all(unknown.as_bytes()).map(|()| Then::Keep));
    let bench = measure(Folder::new("speech-unknown"), &server.url(), "--task speech --audio-format mp3 -c 1 -n 3");
    let audio = &bench.record.phases[0].audio;
    assert_eq!((audio.n, audio.unknown_length, audio.seconds_per_second), (3, 3, None));
    let text = folded(&bench.finished.stdout);
    assert!(text.contains("the bytes do not say how long the sound plays"), "{text}");
    let refusal = answer("application/json", "{\"detail\":\"no such voice\"}");
    let server = Server::start(move |_, stream| stream.write_all(refusal.as_bytes()).map(|()| Then::Keep));
    let bench = measure(Folder::new("speech-text"), &server.url(), "--task speech -c 1 -n 2");
    assert!(bench.rows.iter().all(|row| row["failure"]["kind"] == "not_json"), "{:?}", bench.rows);
    assert!(folded(&bench.finished.stdout).contains("no such voice"), "{}", bench.finished.stdout);
}

#[test]
fn what_does_not_go_with_sound_is_refused_before_anything_is_sent() {
    let folder = Folder::new("speech-refused");
    let remote = "--url http://127.0.0.1:9/v1 --model m";
    for (more, why) in [
        ("--voice alloy".to_owned(), "--voice: it belongs to --task speech"),
        (format!("{remote} --task embeddings --audio-format wav"), "--audio-format: it belongs to --task speech"),
        ("--task speech".to_owned(), "it needs an endpoint"),
        (format!("{remote} --task speech --dialect anthropic"), "have none beside it"),
        (format!("{remote} --task speech --no-stream"), "the body comes as it is made"),
        (format!("{remote} --task speech --output-tokens 5"), "asks for none"),
        (format!("{remote} --task speech --sessions 2"), "asks for none"),
        (format!("{remote} --task speech --slo ttft<1s"), "speech has no ttft"),
        (format!("{remote} --task speech --slo real_time_factor<1s"), "no unit"),
        (format!("{remote} --slo time_to_first_audio<1s"), "text has no time_to_first_audio"),
        (format!("{remote} --task speech --audio-format wav --sample-rate 8000"), "says its rate itself"),
        (format!("{remote} --task speech --batch 3"), "--task embeddings or rerank"),
    ] {
        let arguments = format!("bench {more}");
        let refused = tool::run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
        assert_eq!(refused.code, Some(2), "{more}: {refused:?}");
        assert!(folded(&refused.stderr).contains(why), "{more}: {}", refused.stderr);
    }
}

#[test]
fn transcripts_are_timed_against_the_sound_that_was_sent() {
    let host = engine(quick());
    for (name, more) in [("streamed", ""), ("whole", "--no-stream"), ("verbose", "--transcript-format verbose_json")] {
        let more =
            format!("--task transcription --audio-seconds 2,4 -c 2 -n 12 --html report.html --csv levels.csv {more}");
        let bench = measure(Folder::new(&format!("transcripts-{name}")), &url(&host), &more);
        assert_eq!(bench.finished.code, Some(0), "{name}: {:?}", bench.finished);
        let phase = &bench.record.phases[0];
        let conditions = &phase.conditions;
        assert_eq!((conditions.task.as_str(), conditions.streaming), ("transcription", name != "whole"));
        assert_eq!((conditions.input_tokens, conditions.prompts.as_str()), (0, "synthetic sound of 2, 4 s"));
        let audio = &phase.audio;
        assert_eq!((audio.n, audio.heard_seconds, audio.said_seconds, audio.words), (12, 36.0, 0.0, 0));
        let truth = host.truth();
        for row in &bench.rows {
            let served = truth.request(row["request_id"].as_str().expect("an id")).expect("the engine saw it");
            let seconds = number(&row["audio"], "heard_ns") / 1_000_000_000;
            assert_eq!((u64::from(served.input_tokens), number(row, "input_reported")), (50 * seconds, 50 * seconds));
            assert!(row["request_bytes"].as_u64() > Some(32_000 * seconds), "{row}");
            if name == "streamed" {
                let first = served.writes.first().expect("text was written").written_at.as_nanos();
                let seen = number(row, "sent_at_ns") + number(row, "ttft_ns");
                assert!(seen.abs_diff(first) < 30_000_000, "{seen} {first}");
                let tokens: u32 = served.writes.iter().map(|write| write.tokens).sum();
                assert_eq!(u64::from(tokens), 3 * seconds);
            } else if name == "whole" {
                assert!(row["ttft_ns"].is_null(), "{row}");
            }
        }
        let (low, high) = (audio.real_time_factor.min.expect("answers"), audio.real_time_factor.max.expect("answers"));
        assert!(low > 0.0 && high < 1.0, "{low} {high}");
        // By the definitions: as many seconds of sound as requests a second have.
        let throughput = phase.throughput.as_ref().expect("a window");
        let rate = audio.seconds_per_second.expect("a window");
        assert!((rate / (3.0 * throughput.requests_per_second) - 1.0).abs() < 0.5, "{rate}");
        let text = folded(&bench.finished.stdout);
        assert!(text.contains("real-time factor") && !text.contains("first audio"), "{text}");
        assert!(bench.folder.read("report.html").contains("Real-time factor"));
        assert!(bench.folder.read("levels.csv").contains("audio_seconds_per_second"));
    }
}

#[test]
fn wrong_words_are_counted_where_it_is_known_what_was_said() {
    let folder = Folder::new("transcripts-words");
    let sound = folder.join("sound");
    std::fs::create_dir(&sound).expect("writable");
    for (name, text) in [("a", Some("One two, three four.")), ("b", Some("Five six.")), ("c", None)] {
        let file = [tokrate_wire::sound::wav_head(8_000, Some(8_000)).as_slice(), &[0; 16_000]].concat();
        std::fs::write(sound.join(format!("{name}.wav")), file).expect("writable");
        if let Some(text) = text {
            std::fs::write(sound.join(format!("{name}.txt")), text).expect("writable");
        }
    }
    let server = Server::start(|asked, stream| {
        let heard = if String::from_utf8_lossy(&asked.body).contains("filename=\"a.wav\"") {
            "one too three"
        } else {
            "five six"
        };
        let body = format!("{{\"text\":\"{heard}\"}}");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).map(|()| Then::Keep)
    });
    let more = "--task transcription --audio sound -c 1 -n 30 --assert word_errors.share<20% --html report.html";
    let bench = measure(folder, &server.url(), more);
    assert_eq!(bench.finished.code, Some(1), "a third is wrong: {:?}", bench.finished);
    let audio = &bench.record.phases[0].audio;
    assert_eq!((audio.words, audio.word_errors, audio.heard_seconds), (60, 20, 30.0));
    assert!(folded(&bench.finished.stdout).contains("word error rate 33.3 %"), "{}", bench.finished.stdout);
    assert!(bench.folder.read("report.html").contains("20 of 60 words"));
    assert!(bench.record.conditions.prompts.starts_with("3 files of 1.0 s ("), "{}", bench.record.conditions.prompts);
}

#[test]
fn what_does_not_go_with_transcripts_is_refused_before_anything_is_sent() {
    let folder = Folder::new("transcripts-refused");
    std::fs::write(folder.join("a.wav"), "RIFF").expect("writable");
    std::fs::create_dir(folder.join("empty")).expect("writable");
    let remote = "--url http://127.0.0.1:9/v1 --model m --task transcription";
    for (more, why) in [
        ("--audio a.wav".to_owned(), "--audio: it belongs to --task transcription"),
        ("--audio-seconds 5".to_owned(), "--audio-seconds: it belongs to --task transcription"),
        (format!("{remote} --audio a.wav"), "it holds no sound"),
        (format!("{remote} --audio none.wav"), "read --audio none.wav"),
        (format!("{remote} --audio empty"), "there is no .wav file in it"),
        (format!("{remote} --audio-seconds 0"), "between 0.1 and 3600 s"),
        (format!("{remote} --voice alloy"), "--voice: it belongs to --task speech"),
        (format!("{remote} --input-tokens 5"), "sends sound and no text"),
        (format!("{remote} --slo time_to_first_audio<1s"), "a transcript has no time_to_first_audio"),
        (format!("{remote} --no-stream --slo ttft<1s"), "without streaming an answer comes in one piece"),
    ] {
        let arguments = format!("bench {more}");
        let refused = tool::run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
        assert_eq!(refused.code, Some(2), "{more}: {refused:?}");
        assert!(folded(&refused.stderr).contains(why), "{more}: {}", refused.stderr);
    }
}
