//! Pixels of an image, on which lines and letters are drawn, and the colours of values.
//!
//! Pure. Used by [`super::picture`]; the colours also by [`super::terminal`].

use std::convert::Infallible;

use embedded_graphics::Pixel;
use embedded_graphics::draw_target::DrawTarget;
use embedded_graphics::geometry::{OriginDimensions, Size};
use embedded_graphics::pixelcolor::{Rgb888, RgbColor};

use crate::error::Result;
use crate::memory::no_memory;

/// Red, green and blue.
pub type Colour = [u8; 3];

/// Of values that are none.
pub const MISSING: Colour = [0xa0, 0xa0, 0xa0];

/// Of a value between the least (0) and the most (1): Viridis, which keeps its order for all eyes
/// and in print.
pub fn colour_of_level(level: f32) -> Colour {
    let colour = colorous::VIRIDIS.eval_continuous(f64::from(level.clamp(0.0, 1.0)));
    [colour.r, colour.g, colour.b]
}

/// An image.
pub struct Canvas {
    width: u32,
    height: u32,
    /// Row by row, three bytes for each pixel.
    bytes: Vec<u8>,
}

impl Canvas {
    /// A white one.
    pub fn new(width: u32, height: u32) -> Result<Canvas> {
        let len = 3 * width as usize * height as usize;
        let mut bytes = Vec::new();
        let reserved = bytes.try_reserve_exact(len);
        reserved.map_err(|_| no_memory("cannot hold a picture"))?;
        bytes.resize(len, 0xff);
        Ok(Canvas {
            width,
            height,
            bytes,
        })
    }

    /// Row by row, three bytes for each pixel.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Sets a pixel; outside there is none.
    pub fn set(&mut self, x: u32, y: u32, colour: Colour) {
        if x < self.width && y < self.height {
            let at = 3 * (y as usize * self.width as usize + x as usize);
            if let Some(pixel) = self.bytes.get_mut(at..at + 3) {
                pixel.copy_from_slice(&colour);
            }
        }
    }
}

impl OriginDimensions for Canvas {
    fn size(&self) -> Size {
        Size::new(self.width, self.height)
    }
}

impl DrawTarget for Canvas {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(
        &mut self,
        pixels: I,
    ) -> std::result::Result<(), Infallible> {
        for Pixel(at, colour) in pixels {
            if let (Ok(x), Ok(y)) = (u32::try_from(at.x), u32::try_from(at.y)) {
                self.set(x, y, [colour.r(), colour.g(), colour.b()]);
            }
        }
        Ok(())
    }
}
