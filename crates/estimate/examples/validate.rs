use tokrate_estimate::{asked::Facts, fit, fit::Output, measured, served, measured::Measured};
fn main() {
    let facts = Facts::embedded();
    let (rows, refused) = measured::rows(&facts);
    for r in &refused { println!("refused {r:?}"); }
    let all: Vec<&Measured> = rows.iter().collect();
    let full = fit::fit(&all);
    let args: Vec<String> = std::env::args().collect();
    let mut groups: Vec<(String, Vec<usize>)> = vec![];
    for (i, r) in rows.iter().enumerate() {
        for k in [format!("m {}", r.question.model.name), format!("d {}", r.question.device.name)] {
            match groups.iter_mut().find(|g| g.0 == k) { Some(g) => g.1.push(i), None => groups.push((k, vec![i])) }
        }
    }
    let mut errs: Vec<(Output, tokrate_estimate::question::Kind, f64, String)> = vec![];
    for (name, held) in &groups {
        let train: Vec<&Measured> = rows.iter().enumerate().filter(|(i, _)| !held.contains(i)).map(|x| x.1).collect();
        let f = if args.iter().any(|a| a == "--train") { full.clone() } else { fit::fit(&train) };
        for &i in held {
            let p = served::predict(&rows[i].question, &f.coefficients);
            for o in Output::ALL {
                if let (Some(m), Some(x)) = (o.measured(&rows[i]), o.predicted(&p)) {
                    errs.push((o, rows[i].question.kind(), (x / m).ln(), format!("{} {} c{:?} {:.4} vs {:.4} {} q{}", name, rows[i].id.chars().take(110).collect::<String>(), rows[i].question.concurrency, x, m, p.binds, p.queued)));
                }
            }
        }
    }
    for o in Output::ALL { for k in [tokrate_estimate::question::Kind::SingleStream, tokrate_estimate::question::Kind::Served, tokrate_estimate::question::Kind::Ceiling] {
        let mut e: Vec<_> = errs.iter().filter(|e| e.0 == o && e.1 == k).collect();
        if e.is_empty() { continue; }
        e.retain(|e| !args.iter().any(|a| a == "--m") || e.3.starts_with("m "));
        e.sort_by(|a, b| b.2.abs().total_cmp(&a.2.abs()));
        let rel: Vec<f64> = e.iter().map(|e| (e.2.exp() - 1.0).abs()).collect();
        let mut s = rel.clone(); s.sort_by(f64::total_cmp);
        println!("== {o:?} {k:?} n {} mean {:.3} median {:.3}", e.len(), rel.iter().sum::<f64>() / rel.len() as f64, s[s.len() / 2]);
        if args.iter().any(|a| a == "-v") { for x in e.iter().take(40) { println!("   {:+.2} {}", x.2, x.3); } }
    }}
    if args.iter().any(|a| a == "-c") { for ((n, v), s) in tokrate_estimate::coefficients::Coefficients::names().iter().zip(full.coefficients.0).zip(full.errors) { println!("{n} {:.3} ±{:.2}", v.exp(), s); } }
}
