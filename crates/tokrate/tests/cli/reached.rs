//! An endpoint that no address leads to: at a Unix socket, or behind a proxy.
//!
//! Invariant: nothing leaves this machine.

use crate::folder::Folder;
use crate::scripted::{Server, answer, stream};
use crate::tool::{Bench, bench_arguments, finish, run, start, tokrate};
use std::io::copy;
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

fn endpoint() -> Server {
    Server::saying(answer("200 OK", "text/event-stream", &stream(3).concat()))
}

/// Hands what comes to a Unix socket on to a server.
fn at_socket(path: &Path, server: &Server) {
    let (listener, place) = (UnixListener::bind(path).expect("a free path"), server.place());
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(&place).expect("it listens");
            let (reader, writer) = (client.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
            std::thread::spawn(move || hand_on(reader, writer));
            std::thread::spawn(move || {
                let _ = copy(&mut &server, &mut &client);
                let _ = client.shutdown(Shutdown::Both);
            });
        }
    });
}

fn hand_on(from: UnixStream, to: TcpStream) {
    let _ = copy(&mut &from, &mut &to);
    let _ = to.shutdown(Shutdown::Write);
}

/// A path that is short enough for a socket, wherever the tests lie.
fn socket(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tokrate-{name}-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn an_endpoint_at_a_unix_socket_is_measured_and_its_record_names_the_socket() {
    let (server, path, folder) = (endpoint(), socket("reached"), Folder::new("unix-socket"));
    at_socket(&path, &server);
    let place = path.to_str().expect("UTF-8");
    let mut words = bench_arguments("http://localhost/v1", 2, 6);
    words.extend(["--unix-socket".to_owned(), place.to_owned()]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // A proxy of the environment is none for a socket.
    let finished = finish(start(tokrate(&folder, &words).env("ALL_PROXY", "socks5://127.0.0.1:1")));
    let bench = Bench::read(folder, finished);
    bench.expect(0, &[]);
    let conditions = &bench.record.conditions;
    assert_eq!(conditions.endpoint, format!("http://localhost/v1 at unix:{place}"));
    assert!(!conditions.proxied);
    assert!(bench.phase().connections.connect_mean_ms.is_some());
    std::fs::remove_file(path).expect("it is there");
}

#[test]
fn a_proxy_that_stood_between_is_named_wherever_a_result_is_shown() {
    // Who is asked for another host is a proxy.
    let (server, folder) = (endpoint(), Folder::new("proxied"));
    let place = server.place();
    let mut words = bench_arguments("http://elsewhere.invalid/v1", 1, 2);
    words.extend(["--markdown", "result.md", "--html", "page.html"].map(str::to_owned));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let proxy = format!("http://user:geheim@{place}");
    let finished = finish(start(tokrate(&folder, &words).env("ALL_PROXY", proxy)));
    let bench = Bench::read(folder, finished);
    bench.expect(0, &[]);
    assert!(bench.record.conditions.proxied);
    let named = format!("through the proxy {place}");
    for text in [bench.finished.stdout.clone(), bench.folder.read("result.md"), bench.folder.read("page.html")] {
        assert!(text.contains(&named) && !text.contains("geheim"), "{text}");
    }
}

#[test]
fn the_proxy_flag_wins_over_the_settings_file_and_both_over_the_environment() {
    let (server, folder) = (endpoint(), Folder::new("proxy-flag"));
    let nobody = "http://127.0.0.1:9";
    folder.write("proxy.toml", &format!("[bench]\nproxy = \"http://user:geheim@{}\"\n", server.place()));
    folder.write("wrong.toml", "[bench]\nproxy = \"ftp://user:geheim@host\"\n");
    let run = |url: &str, further: &[&str]| {
        let mut words = bench_arguments(url, 1, 2);
        words.extend(further.iter().map(|&word| word.to_owned()));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        finish(start(tokrate(&folder, &words).env("ALL_PROXY", nobody).env("NO_PROXY", "elsewhere.invalid")))
    };
    let through = format!("through the proxy {}", server.place());
    let elsewhere = "http://elsewhere.invalid/v1";
    let proxy = format!("http://{}", server.place());
    for further in [&["--proxy", proxy.as_str(), "--config", "wrong.toml"][..], &["--config", "proxy.toml"]] {
        let ran = run(elsewhere, further);
        assert!(ran.code == Some(0) && ran.stdout.contains(&through), "{ran:?}");
    }
    let direct = run(&server.url(), &["--proxy", "off"]);
    assert!(direct.code == Some(0) && !direct.stdout.contains("proxy"), "{direct:?}");
    let refused = run(elsewhere, &["--config", "wrong.toml"]);
    let reason = "failed to read bench.proxy in wrong.toml: `ftp://` is not a supported kind of proxy";
    assert!(refused.code == Some(2) && refused.stderr.contains(reason), "{refused:?}");
    assert!(!refused.stderr.contains("geheim"), "{refused:?}");
    let failed = run(elsewhere, &["--proxy", nobody]);
    assert!(failed.code == Some(2) && failed.stdout.contains("check --proxy"), "{failed:?}");
}

#[test]
fn a_proxy_that_cannot_be_used_is_refused_where_it_would_be_used_and_shows_no_password() {
    let (server, folder) = (endpoint(), Folder::new("proxies"));
    let words = bench_arguments(&server.url(), 1, 2);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    for (value, message) in [
        (
            "socks4://user:geheim@127.0.0.1:1080",
            "failed to read the proxy in ALL_PROXY: `socks4://` is not a supported kind of proxy: http://, https://, socks5://, socks5h://",
        ),
        ("http://user:ge#heim@127.0.0.1:1080", "failed to read the proxy in ALL_PROXY: it is not a URL"),
    ] {
        let refused = finish(start(tokrate(&folder, &words).env("ALL_PROXY", value)));
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(message) && !refused.stderr.contains("heim"), "{}", refused.stderr);
        let besides = finish(start(tokrate(&folder, &words).env("ALL_PROXY", value).env("NO_PROXY", "127.0.0.1")));
        assert_eq!(besides.code, Some(0), "{besides:?}");
    }
    assert_eq!(run(&folder, &words).code, Some(0));
}
