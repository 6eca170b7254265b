//! Places on a picture that tell their figures: by pointer, by keyboard and by touch, without a script.
//!
//! A picture is an image to readers that speak, so what can take the focus lies below it as elements of its own. The style
//! sheet shows the words of the one that has the pointer or the focus at the lower edge of the window.

use std::fmt::Write as _;

use super::svg::{Svg, escaped};

impl Svg {
    /// A place that tells `tip`.
    pub(crate) fn spot(&mut self, from: (f64, f64), size: (f64, f64), tip: &str) {
        let (tip, style) = (escaped(tip), self.placed(from, size));
        let _ = write!(
            self.spots,
            r#"<span class="spot" tabindex="0" role="img" aria-label="{tip}" data-tip="{tip}" style="{style}"></span>"#
        );
    }

    /// A row of the picture, `height` high around `y`, that tells `tip`. The part left of `label_end` is a link to the element
    /// `id`, which has the focus for the row; the rest takes it by touch.
    pub(crate) fn row_spot(&mut self, (y, height): (f64, f64), label_end: f64, tip: &str, id: &str) {
        let (width, tip) = (self.width(), escaped(tip));
        let style = self.placed((0.0, y - height / 2.0), (width, height));
        let _ = write!(
            self.spots,
            r##"<span class="spot" tabindex="-1" data-tip="{tip}" style="{style}"><a href="#{}" aria-label="{tip}" style="width:{:.2}%"></a></span>"##,
            escaped(id),
            label_end / width * 100.0
        );
    }

    /// Shares of the picture, so that the place moves with its size.
    fn placed(&self, (x, y): (f64, f64), (width, height): (f64, f64)) -> String {
        let across = |length: f64| length / self.width() * 100.0;
        let down = |length: f64| length / self.height() * 100.0;
        format!("left:{:.2}%;top:{:.2}%;width:{:.2}%;height:{:.2}%", across(x), down(y), across(width), down(height))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spot_has_its_words_escaped_and_its_place_in_shares() {
        let mut svg = Svg::new(200.0, 100.0, "name");
        svg.spot((20.0, 10.0), (100.0, 50.0), "<a> \"b\"");
        svg.row_spot((50.0, 20.0), 50.0, "row", "A-udp-spin-64B");
        let picture = svg.finish();
        assert!(picture.starts_with("<div class=\"drawing\"><span") && picture.ends_with("</svg></div>"), "{picture}");
        assert!(picture.contains("aria-label=\"&lt;a&gt; &quot;b&quot;\""), "{picture}");
        assert!(picture.contains("left:10.00%;top:10.00%;width:50.00%;height:50.00%"), "{picture}");
        assert!(
            picture.contains("<a href=\"#A-udp-spin-64B\" aria-label=\"row\" style=\"width:25.00%\">"),
            "{picture}"
        );
    }

    #[test]
    fn picture_without_spots_is_the_svg_alone() {
        let picture = Svg::new(200.0, 100.0, "name").finish();
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>"), "{picture}");
    }
}
