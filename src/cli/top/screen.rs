//! The screen of `top`: what is drawn, and what keys do.
//!
//! Everything fits into any terminal: what has no room is left out. Used by [`super`].

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

use super::table::{MountRow, SortOrder, TableShape, TopColumn, beginning_of};

/// What the user has chosen.
pub(super) struct TopScreen {
    pub(super) order: SortOrder,
    /// The mountpoint that is selected.
    selected: Option<String>,
    /// The first row that is shown.
    top: usize,
}

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Quit,
    /// To be drawn anew.
    Draw,
    Nothing,
}

const HELP: &str = "q quit  s sort  r reverse  arrows select";

impl TopScreen {
    pub(super) fn new() -> TopScreen {
        TopScreen {
            order: SortOrder {
                column: TopColumn::Read,
                reversed: false,
            },
            selected: None,
            top: 0,
        }
    }

    /// `rows`: as they are shown.
    pub(super) fn take(&mut self, event: &Event, rows: &[MountRow]) -> Wish {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.take_key(key, rows),
            Event::Resize(..) => Wish::Draw,
            _ => Wish::Nothing,
        }
    }

    fn take_key(&mut self, key: &KeyEvent, rows: &[MountRow]) -> Wish {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd') if control => return Wish::Quit,
            KeyCode::Char('q' | 'Q') | KeyCode::Esc => return Wish::Quit,
            KeyCode::Char('l') if control => {}
            KeyCode::Char('s') | KeyCode::Right => self.order.column = self.order.column.next(),
            KeyCode::Char('S') | KeyCode::Left => {
                self.order.column = self.order.column.previous();
            }
            KeyCode::Char('r') => self.order.reversed = !self.order.reversed,
            KeyCode::Up | KeyCode::Char('k') => self.select(rows, |at| at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(rows, |at| at + 1),
            KeyCode::Home => self.select(rows, |_| 0),
            KeyCode::End => self.select(rows, |_| usize::MAX),
            _ => return Wish::Nothing,
        }
        Wish::Draw
    }

    fn select(&mut self, rows: &[MountRow], to: impl Fn(usize) -> usize) {
        let at = to(self.selected_of(rows)).min(rows.len().saturating_sub(1));
        self.selected = rows.get(at).map(|row| row.mountpoint.clone());
    }

    /// Which row is selected: the first one, if the mount has gone.
    pub(super) fn selected_of(&self, rows: &[MountRow]) -> usize {
        let selected = self.selected.as_deref();
        let found = rows
            .iter()
            .position(|row| Some(&row.mountpoint[..]) == selected);
        found.unwrap_or(0)
    }

    /// `details`: of the mount that is selected.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>, rows: &[MountRow], details: &[String]) {
        let area = frame.area();
        let (height, width) = (usize::from(area.height), usize::from(area.width));
        let shape = TableShape::of_width(width);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let title = format!("arrayfs top  mounts: {}  {HELP}", rows.len());
        let mut lines = vec![Line::styled(beginning_of(&title, width), bold)];
        let reversed = Style::new().add_modifier(Modifier::REVERSED);
        let header = beginning_of(&shape.header(self.order), width);
        lines.push(Line::styled(header, reversed));
        let room = height.saturating_sub(lines.len());
        // A line separates what is told of the selected mount.
        let told = (details.len() + 1).min(room / 2);
        let shown = rows.len().min(room.saturating_sub(told));
        let selected = self.selected_of(rows);
        self.top = self.top.min(selected).min(rows.len().saturating_sub(shown));
        self.top = self.top.max((selected + 1).saturating_sub(shown));
        let visible = rows.iter().enumerate().skip(self.top).take(shown);
        lines.extend(visible.map(|(at, row)| row_line(&shape, row, at == selected)));
        if rows.is_empty() {
            lines.push(Line::raw("no arrayfs mounts"));
        } else {
            lines.push(Line::raw(""));
        }
        let told = details
            .iter()
            .map(|line| Line::raw(beginning_of(line, width)));
        lines.extend(told);
        for (line, y) in lines.iter().zip(area.top()..area.bottom()) {
            let place = Rect::new(area.x, y, area.width, 1);
            frame.render_widget(line, place);
        }
    }
}

fn row_line(shape: &TableShape, row: &MountRow, is_selected: bool) -> Line<'static> {
    let mut style = Style::new();
    if row.trouble.is_some() {
        style = style.fg(Color::Red);
    }
    if is_selected {
        style = style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
    }
    Line::styled(shape.row(row), style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::figures::Figures;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn rows(count: usize) -> Vec<MountRow> {
        let row = |n: usize| MountRow {
            mountpoint: format!("/mnt/{n:03}"),
            figures: (n != 1).then(|| Figures {
                read: Some(n as f64),
                ..Figures::default()
            }),
            trouble: (n == 1).then(|| "dead: the daemon has ended".into()),
        };
        (0..count).map(row).collect()
    }

    fn drawn(screen: &mut TopScreen, (width, height): (u16, u16), rows: &[MountRow]) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let details = vec!["the details".to_owned(); 12];
        terminal
            .draw(|frame| screen.draw(frame, rows, &details))
            .unwrap();
        let buffer = terminal.backend().buffer().clone();
        let cells = buffer.content().chunks(usize::from(width.max(1)));
        let line =
            |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect();
        cells.map(line).collect::<Vec<String>>().join("\n")
    }

    fn press(screen: &mut TopScreen, code: KeyCode, rows: &[MountRow]) -> Wish {
        screen.take(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)), rows)
    }

    #[test]
    fn a_screen_shows_mounts_and_details() {
        let text = drawn(&mut TopScreen::new(), (80, 24), &rows(3));
        for part in [
            "arrayfs top  mounts: 3",
            "*READ/s",
            "/mnt/000",
            "dead: the daemon",
            "the details",
        ] {
            assert!(text.contains(part), "'{part}' is missing in\n{text}");
        }
    }

    #[test]
    fn every_size_is_drawn() {
        for width in [0, 1, 7, 20, 79, 80, 300] {
            for height in [0, 1, 2, 3, 5, 24, 60] {
                for count in [0, 1, 2, 40] {
                    drawn(&mut TopScreen::new(), (width, height), &rows(count));
                }
            }
        }
    }

    #[test]
    fn the_selected_mount_is_in_sight() {
        let (mut screen, rows) = (TopScreen::new(), rows(40));
        for _ in 0..30 {
            assert_eq!(press(&mut screen, KeyCode::Down, &rows), Wish::Draw);
            let selected = format!("/mnt/{:03}", screen.selected_of(&rows));
            assert!(drawn(&mut screen, (80, 24), &rows).contains(&selected));
        }
        // In a terminal that has become smaller, too.
        assert!(drawn(&mut screen, (20, 5), &rows).contains("030"));
        press(&mut screen, KeyCode::Home, &rows);
        assert!(drawn(&mut screen, (80, 24), &rows).contains("/mnt/000"));
        press(&mut screen, KeyCode::End, &rows);
        assert_eq!(screen.selected_of(&rows), 39);
        assert_eq!(screen.selected_of(&rows[..3]), 0, "it has gone");
    }

    #[test]
    fn keys_quit_sort_and_reverse() {
        let (mut screen, rows) = (TopScreen::new(), rows(2));
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.take(&Event::Key(control_c), &rows), Wish::Quit);
        for quit in [KeyCode::Char('q'), KeyCode::Esc] {
            assert_eq!(press(&mut screen, quit, &rows), Wish::Quit);
        }
        press(&mut screen, KeyCode::Char('s'), &rows);
        press(&mut screen, KeyCode::Char('r'), &rows);
        let expected = SortOrder {
            column: TopColumn::Decoded,
            reversed: true,
        };
        assert_eq!(screen.order, expected);
        assert_eq!(press(&mut screen, KeyCode::Char('x'), &rows), Wish::Nothing);
        assert_eq!(screen.take(&Event::Resize(20, 5), &rows), Wish::Draw);
    }
}
