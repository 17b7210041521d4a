//! This reader's own evaluation.

use arrow_array::Array;
use reader::Restrictions;

use crate::{cases::cases, random::Random, rows::batch};

#[test]
fn this_reader_keeps_the_rows_that_the_source_says() {
    let mut random = Random::for_test("this reader");
    for case in cases(&mut random, 60, 40, 20) {
        let schema = case.schema();
        let rows = batch(&case.table.rows, &schema);
        for filter in &case.filters {
            let restrictions =
                Restrictions::parse(&filter.member, &schema).expect("a form that the reader knows");
            let kept = restrictions.row_filter().evaluate(&rows).expect("rows of the schema");
            assert_eq!(kept.null_count(), 0);
            filter.check("this reader", &case, &kept.values().iter().collect::<Vec<_>>());
        }
    }
}
