//! [`Top`]: the largest of many values.

/// The `capacity` largest values and their names, in descending order. Equal values keep their order of arrival.
#[derive(Clone, Debug)]
pub struct Top<V> {
    capacity: usize,
    items: Vec<(V, Box<str>)>,
}

impl<V: Ord + Copy> Top<V> {
    pub fn new(capacity: usize) -> Self {
        Self { capacity, items: Vec::with_capacity(capacity) }
    }

    /// Inserts the value if it is among the largest.
    pub fn add(&mut self, value: V, name: &str) {
        if self.items.len() == self.capacity {
            match self.items.last() {
                Some((least, _)) if value > *least => self.items.pop(),
                _ => return,
            };
        }
        let position = self.items.partition_point(|(other, _)| *other >= value);
        self.items.insert(position, (value, name.into()));
    }

    pub fn iter(&self) -> impl Iterator<Item = (V, &str)> {
        self.items.iter().map(|(value, name)| (*value, &**name))
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_values_are_kept_in_descending_order() {
        let mut top = Top::new(3);
        for (value, name) in [(2, "b"), (9, "z"), (1, "a"), (2, "c"), (5, "e"), (2, "late")] {
            top.add(value, name);
        }
        assert_eq!(top.iter().collect::<Vec<_>>(), [(9, "z"), (5, "e"), (2, "b")]);
        let mut none = Top::new(0);
        none.add(1, "x");
        assert!(none.is_empty());
    }
}
