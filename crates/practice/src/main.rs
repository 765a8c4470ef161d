//! `argiope-practice`: serves test webs. See `argiope-practice --help`.

fn main() {
    std::process::exit(argiope_practice::serve_main(std::env::args().skip(1)));
}
