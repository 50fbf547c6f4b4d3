//! Majority arithmetic.

/// How many members a majority of `members` has.
pub fn majority(members: usize) -> usize {
    members / 2 + 1
}

/// The largest value that a majority of the members has reached: with values sorted from large to small, the one at
/// place `majority - 1`. `values` is sorted in place.
pub fn reached_by_majority(values: &mut [i64]) -> i64 {
    assert!(!values.is_empty(), "a group has at least one member");
    let place = majority(values.len()) - 1;
    values.sort_unstable_by(|a, b| b.cmp(a));
    values[place]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn majorities_of_small_groups() {
        let sizes: Vec<usize> = (1..=7).map(majority).collect();
        assert_eq!(sizes, [1, 2, 2, 3, 3, 4, 4]);
    }

    proptest! {
        /// Against the definition: the largest x such that at least a majority of the values is >= x.
        #[test]
        fn agrees_with_the_definition(values in proptest::collection::vec(-1i64..20, 1..=9)) {
            let need = majority(values.len());
            let slow = (-1..20).rev().find(|x| values.iter().filter(|v| *v >= x).count() >= need).unwrap();
            prop_assert_eq!(reached_by_majority(&mut values.clone()), slow);
        }
    }
}
