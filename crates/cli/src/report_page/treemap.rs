//! The structure of a site as a treemap: each folder is a rectangle, sized by pages and coloured by broken links.
//!
//! The layout is a squarified treemap (Bruls, Huizing, van Wijk): rows of rectangles that are as square as possible.

use std::fmt::Write as _;

use super::markup::Text;
use crate::report::detail::{SiteTree, TreeNode};
use crate::wording;

/// Maximum number of rectangles in a map.
const MAX_RECTANGLES: usize = 800;
/// Minimum side of a rectangle. Smaller ones are not drawn.
const MIN_SIDE: f64 = 6.0;
/// Height of the header with a folder's name.
const HEADER: f64 = 18.0;
/// Minimum height of a rectangle with a label.
const MIN_LABEL_HEIGHT: f64 = 16.0;
/// Minimum characters of a label.
const MIN_LABEL_CHARS: u64 = 4;
/// Width of a character of a label.
const CHAR_WIDTH: f64 = 7.2;
/// Distance of a label from the left and right sides of its rectangle.
const LABEL_MARGIN: f64 = 4.0;
/// Distance of a label's baseline from the top of its rectangle.
const LABEL_BASELINE: f64 = 13.0;
/// Distance of the rectangles in a folder from the sides and the bottom of the folder.
const FOLDER_MARGIN: f64 = 2.0;
/// From this share of broken pages on, a rectangle has the second of the three colours of broken pages.
const MANY_BROKEN: f64 = 0.02;
/// From this share of broken pages on, a rectangle has the third colour.
const MOST_BROKEN: f64 = 0.1;
/// How many levels of folders are drawn inside the folders of the first level.
const MAX_LEVELS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Area {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// Renders a map of this size; empty if there is nothing to show.
pub fn render(tree: &SiteTree, width: f64, height: f64, class: &str) -> String {
    let Some(mut root) = tree.nodes.first() else { return String::new() };
    let mut name = String::new();
    // Skip levels that have only one child, such as a single host.
    while root.children.len() == 1 {
        let Some(only) = root.children.values().next().and_then(|child| tree.nodes.get(*child)) else { break };
        if only.pages < root.pages {
            break;
        }
        let _ = write!(name, "{}{}", if name.is_empty() { "" } else { "/" }, only.name);
        root = only;
    }
    if root.children.is_empty() {
        return String::new();
    }
    let mut svg = format!(
        "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"Structure of {}: {} folders\">",
        Text(if name.is_empty() { "all hosts" } else { &name }),
        root.children.len()
    );
    let mut rectangles_left = MAX_RECTANGLES;
    let area = Area { x: 0.0, y: 0.0, width, height };
    draw_children(&mut svg, tree, root, area, &name, 0, &mut rectangles_left);
    svg.push_str("</svg>");
    svg
}

/// Draws the children of a node inside `area`, and their children inside them.
fn draw_children(
    svg: &mut String,
    tree: &SiteTree,
    node: &TreeNode,
    area: Area,
    path: &str,
    depth: usize,
    rectangles_left: &mut usize,
) {
    let mut children: Vec<&TreeNode> = node.children.values().filter_map(|child| tree.nodes.get(*child)).collect();
    children.sort_by(|one, other| other.pages.cmp(&one.pages).then(one.name.cmp(&other.name)));
    // Pages directly in the folder.
    let direct_pages = node.pages.saturating_sub(children.iter().map(|child| child.pages).sum());
    let mut sizes: Vec<(f64, Option<&TreeNode>)> =
        children.into_iter().map(|child| (child.pages as f64, Some(child))).collect();
    if direct_pages > 0 {
        sizes.push((direct_pages as f64, None));
        sizes.sort_by(|one, other| other.0.total_cmp(&one.0));
    }
    let areas = squarify(&sizes.iter().map(|(size, _)| *size).collect::<Vec<_>>(), area);
    for ((size, child), area) in sizes.into_iter().zip(areas) {
        if *rectangles_left == 0 || area.width < MIN_SIDE || area.height < MIN_SIDE {
            continue;
        }
        *rectangles_left -= 1;
        let (name, broken) = child.map_or(("pages here", 0), |child| (&*child.name, child.broken));
        let full_path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
        let share = broken as f64 / size.max(1.0);
        let heat_class = if broken == 0 {
            "h0"
        } else if share < MANY_BROKEN {
            "h1"
        } else if share < MOST_BROKEN {
            "h2"
        } else {
            "h3"
        };
        // The level selects the colour. Pages directly in a folder have the colour of a level that no folder has.
        let level = if child.is_none() { MAX_LEVELS + 1 } else { depth.min(MAX_LEVELS) };
        let _ = write!(
            svg,
            "<g><title>{}: {}, {} broken</title><rect class=\"tile l{level} {heat_class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            Text(&full_path),
            wording::plural(to_whole(size), "page"),
            wording::count(broken),
            area.x,
            area.y,
            area.width,
            area.height
        );
        let letters = to_whole((area.width - 2.0 * LABEL_MARGIN) / CHAR_WIDTH);
        if area.height >= MIN_LABEL_HEIGHT && letters >= MIN_LABEL_CHARS {
            let label: String = name.chars().take(usize::try_from(letters).unwrap_or(usize::MAX)).collect();
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                area.x + LABEL_MARGIN,
                area.y + LABEL_BASELINE,
                Text(&label)
            );
        }
        svg.push_str("</g>");
        if let Some(child) = child.filter(|child| !child.children.is_empty() && depth < MAX_LEVELS) {
            let inner = Area {
                x: area.x + FOLDER_MARGIN,
                y: area.y + HEADER,
                width: area.width - 2.0 * FOLDER_MARGIN,
                height: area.height - HEADER - FOLDER_MARGIN,
            };
            // In a smaller area, most rectangles would be too small to be drawn.
            if inner.width > 3.0 * MIN_SIDE && inner.height > 3.0 * MIN_SIDE {
                draw_children(svg, tree, child, inner, &full_path, depth + 1, rectangles_left);
            }
        }
    }
}

/// Drops the fraction; negative numbers become 0.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn to_whole(number: f64) -> u64 {
    number.max(0.0) as u64
}

/// Divides `area` into one area per size. The sizes are sorted, largest first.
fn squarify(sizes: &[f64], mut area: Area) -> Vec<Area> {
    let total: f64 = sizes.iter().sum();
    let mut areas = Vec::with_capacity(sizes.len());
    if total <= 0.0 || area.width <= 0.0 || area.height <= 0.0 {
        return vec![Area { width: 0.0, height: 0.0, ..area }; sizes.len()];
    }
    let scale = area.width * area.height / total;
    let mut rest: Vec<f64> = sizes.iter().map(|size| size * scale).collect();
    while !rest.is_empty() {
        let side = area.width.min(area.height);
        // Add rectangles to the row as long as they do not make its worst aspect ratio worse.
        let mut count = 1;
        while count < rest.len()
            && worst_ratio(rest.get(..=count).unwrap_or(&[]), side)
                <= worst_ratio(rest.get(..count).unwrap_or(&[]), side)
        {
            count += 1;
        }
        let row: Vec<f64> = rest.drain(..count).collect();
        let sum: f64 = row.iter().sum();
        let thickness = if side > 0.0 { sum / side } else { 0.0 };
        let mut offset = 0.0;
        for size in row {
            let length = if thickness > 0.0 { size / thickness } else { 0.0 };
            areas.push(if area.width >= area.height {
                Area { x: area.x, y: area.y + offset, width: thickness, height: length }
            } else {
                Area { x: area.x + offset, y: area.y, width: length, height: thickness }
            });
            offset += length;
        }
        if area.width >= area.height {
            area = Area { x: area.x + thickness, width: (area.width - thickness).max(0.0), ..area };
        } else {
            area = Area { y: area.y + thickness, height: (area.height - thickness).max(0.0), ..area };
        }
    }
    areas
}

/// The worst aspect ratio of the rectangles, if these areas form a row along a side of this length.
fn worst_ratio(row: &[f64], side: f64) -> f64 {
    let sum: f64 = row.iter().sum();
    let largest = row.iter().copied().fold(0.0, f64::max);
    let smallest = row.iter().copied().fold(f64::INFINITY, f64::min);
    let square = side * side;
    (square * largest / (sum * sum)).max(sum * sum / (square * smallest.max(f64::MIN_POSITIVE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_area_has_its_size_and_lies_within_the_whole() {
        let area = Area { x: 0.0, y: 0.0, width: 600.0, height: 400.0 };
        let sizes = [6.0, 6.0, 4.0, 3.0, 2.0, 2.0, 1.0];
        let areas = squarify(&sizes, area);
        for (size, found) in sizes.iter().zip(&areas) {
            // 24 is the sum of the sizes, and 240,000 is the whole area.
            let expected = size / 24.0 * 240_000.0;
            assert!((found.width * found.height - expected).abs() < 1.0, "{found:?}");
            assert!(found.x >= -0.01 && found.x + found.width <= 600.01, "{found:?}");
            assert!(found.y >= -0.01 && found.y + found.height <= 400.01, "{found:?}");
        }
        assert!(squarify(&[], area).is_empty());
        assert_eq!(squarify(&[0.0], area).len(), 1);
    }
}
