//! The frontier suite, stamped on every frontier.

argiope_testkit::frontier_suite!(memory, argiope_store::MemoryFrontier::new);
