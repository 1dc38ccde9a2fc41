//! Tests of linear least squares: an exact solution, and what has none.

use crate::{least_squares, solve};

#[test]
fn the_weighted_solution_is_that_of_the_normal_equations_in_fractions() {
    let columns = [vec![1.0; 5], vec![1.0, 2.0, 4.0, 7.0, 16.0], vec![3.0, -1.0, 4.0, 1.0, -5.0]];
    let found = solve(&columns, &[2.0, 3.0, 5.0, 7.0, 11.0], &[1.0, 4.0, 2.25, 0.25, 9.0]).expect("independent");
    // Solved by Gauss and Jordan with Python's `fractions`.
    let expected = [18_606_989.0, 6_387_264.0, 1_382_102.0].map(|numerator| numerator / 10_334_425.0);
    for (found, expected) in found.into_iter().zip(expected) {
        assert!((found - expected).abs() < 1e-14, "{found} for {expected}");
    }
}

#[test]
fn standard_errors_are_those_of_the_inverse_normal_matrix() {
    // The mean of values with variances 1, 1/4 and 4, and with a column beside it that is 1 for the last alone.
    let fit = least_squares(&[vec![1.0; 3]], &[3.0, 5.0, 9.0], &[1.0, 4.0, 0.25]).expect("one column");
    assert!((fit.coefficients[0] - 25.25 / 5.25).abs() < 1e-12 && (fit.errors[0] - 5.25_f64.powf(-0.5)).abs() < 1e-12);
    let columns = [vec![1.0; 3], vec![0.0, 0.0, 1.0]];
    let fit = least_squares(&columns, &[3.0, 5.0, 9.0], &[1.0, 4.0, 0.25]).expect("independent");
    let expected = [0.2_f64, 0.2 + 4.0].map(f64::sqrt);
    assert!(fit.errors.iter().zip(expected).all(|(found, error)| (found - error).abs() < 1e-12), "{fit:?}");
    assert!((fit.coefficients[0] - 4.6).abs() < 1e-12 && (fit.coefficients[1] - 4.4).abs() < 1e-12, "{fit:?}");
}

#[test]
fn columns_that_depend_on_one_another_and_what_is_not_finite_have_no_solution() {
    let (target, weights) = ([1.0, 2.0, 4.0, 9.0], [1.0, 2.0, 1.0, 0.5]);
    let (one, rising) = (vec![1.0; 4], vec![0.1, 0.2, 0.3, 0.7]);
    // Rounding leaves a little of the third, which must not count.
    let both = [0.1, 0.2, 0.3, 0.7].map(|x| 0.3 + 0.7 * x).to_vec();
    assert_eq!(solve(&[one.clone(), rising.clone(), both], &target, &weights), None);
    assert_eq!(solve(&[one.clone(), vec![0.0; 4]], &target, &weights), None);
    assert_eq!(solve(&[one.clone(), vec![1.0, f64::INFINITY, 2.0, 3.0]], &target, &weights), None);
    assert_eq!(solve(&[one.clone(), rising.clone()], &[1.0, f64::NAN, 2.0, 3.0], &weights), None);
    // A part of 1e-6 is told apart, one of 1e-12 is not.
    let nearly = |part: f64| vec![1.0, 1.0 + part, 1.0 - part, 1.0];
    let [first, second] = solve(&[one.clone(), nearly(1e-6)], &nearly(3e-6), &[1.0; 4]).expect("told apart");
    assert!((first + 2.0).abs() < 1e-8 && (second - 3.0).abs() < 1e-8, "{first} {second}");
    assert_eq!(solve(&[one, nearly(1e-12)], &nearly(3e-12), &[1.0; 4]), None);
}
