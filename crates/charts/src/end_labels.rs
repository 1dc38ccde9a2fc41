//! Places labels at the ends of lines without overlap.
//!
//! Invariant: labels keep their order, are at least [`GAP`] apart and stay inside the given range if they fit into it at
//! all.

/// Minimum distance between the baselines of two labels, in pixels: text of 12 pixels and some air.
pub(crate) const GAP: f64 = 15.0;

/// Separates the wanted heights. `wanted` need not be sorted; the result has the same order.
pub(crate) fn spread(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]).then(a.cmp(b)));
    let gap = GAP.min((bottom - top) / wanted.len().saturating_sub(1).max(1) as f64);
    let mut placed: Vec<f64> = order.iter().map(|i| wanted[*i].clamp(top, bottom)).collect();
    for i in 1..placed.len() {
        placed[i] = placed[i].max(placed[i - 1] + gap);
    }
    let mut limit = bottom;
    for height in placed.iter_mut().rev() {
        *height = height.min(limit);
        limit = *height - gap;
    }
    let mut out = vec![0.0; wanted.len()];
    for (place, index) in order.into_iter().enumerate() {
        out[index] = placed[place];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_move_apart_and_stay_inside() {
        assert_eq!(spread(&[50.0, 52.0, 10.0], 0.0, 100.0), [50.0, 65.0, 10.0]);
        assert_eq!(spread(&[99.0, 100.0], 0.0, 100.0), [85.0, 100.0]);
        let crowded = spread(&[5.0; 30], 0.0, 100.0);
        assert!(crowded.windows(2).all(|p| p[1] > p[0]) && crowded[29] <= 100.0 + 1e-9 && crowded[0] >= -1e-9);
    }
}
