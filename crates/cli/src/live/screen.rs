//! The live view in a terminal.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Row, Table};
use ratatui::{DefaultTerminal, Frame};

use super::{CONNECTION_COLUMNS, Order, PROCESS_COLUMNS, Rates, Snapshot};

const HELP: &str = " q quit   1 by traffic   2 by connections and queues   3 by name ";

/// Shows rates until the user has seen enough.
pub(crate) fn run(socket_dir: &Path, interval: Duration) -> Result<()> {
    let mut terminal = ratatui::try_init()?;
    let result = watch(&mut terminal, socket_dir, interval);
    ratatui::try_restore()?;
    result
}

fn watch(terminal: &mut DefaultTerminal, socket_dir: &Path, interval: Duration) -> Result<()> {
    let mut order = Order::Traffic;
    let mut before = Snapshot::take(socket_dir)?;
    let mut rates = Rates::between(&before, &before);
    let mut due = Instant::now();
    loop {
        if Instant::now() >= due {
            let after = Snapshot::take(socket_dir)?;
            rates = Rates::between(&before, &after);
            before = after;
            // The first look has no predecessor: the second follows quickly.
            due = Instant::now()
                + if rates.interval_ms < 100 { Duration::from_millis(200).min(interval) } else { interval };
        }
        rates.sort(order);
        terminal.draw(|frame| draw(frame, &rates, order))?;
        if !event::poll(due.saturating_duration_since(Instant::now()))? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            match key.code {
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(()),
                KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                KeyCode::Char('1') => order = Order::Traffic,
                KeyCode::Char('2') => order = Order::Load,
                KeyCode::Char('3') => order = Order::Name,
                _ => {}
            }
        }
    }
}

fn draw(frame: &mut Frame<'_>, rates: &Rates, order: Order) {
    let processes_height = (rates.processes.len() as u16).saturating_add(3).min(frame.area().height / 2);
    let [top, bottom, help] =
        Layout::vertical([Constraint::Length(processes_height), Constraint::Min(3), Constraint::Length(1)])
            .areas(frame.area());
    let heading = Style::new().add_modifier(Modifier::BOLD);
    let title = format!(" {} programs, {} connections ", rates.processes.len(), rates.connections.len());
    let widths = [8, 16, 10, 7, 11, 11, 10, 9, 9, 6].map(Constraint::Length);
    let rows = rates.processes.iter().take(usize::from(top.height)).map(|p| Row::new(p.row()));
    let table = Table::new(rows, widths)
        .header(Row::new(PROCESS_COLUMNS).style(heading))
        .block(Block::new().borders(Borders::TOP).title(title));
    frame.render_widget(table, top);
    let widths = [
        Constraint::Length(7),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Length(11),
        Constraint::Length(11),
        Constraint::Length(11),
        Constraint::Length(11),
    ];
    let rows = rates.connections.iter().take(usize::from(bottom.height)).map(|c| Row::new(c.row()));
    let by = match order {
        Order::Traffic => " by traffic ",
        Order::Load => " by queue ",
        Order::Name => " by number ",
    };
    let table = Table::new(rows, widths)
        .header(Row::new(CONNECTION_COLUMNS).style(heading))
        .block(Block::new().borders(Borders::TOP).title(by));
    frame.render_widget(table, bottom);
    frame.render_widget(Line::styled(HELP, Style::new().add_modifier(Modifier::REVERSED)), help);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::live::{ConnectionRates, ProcessRates};

    #[test]
    fn the_screen_shows_programs_connections_and_keys() {
        let process = ProcessRates {
            pid: 7,
            name: "redis-server".into(),
            profile: "latency".into(),
            connections: 50,
            tx_bytes_per_s: 2048,
            rx_bytes_per_s: 0,
            calls_per_s: 3,
            sleeps_per_s: 0,
            wakes_per_s: 0,
            spin_hit_percent: None,
        };
        let connection = ConnectionRates {
            connection: 12,
            a: "127.0.0.1:7000 redis-server".into(),
            b: "127.0.0.1:40000".into(),
            a_to_b_bytes_per_s: 1,
            b_to_a_bytes_per_s: 2,
            queued_bytes: 3,
            memory_bytes: 65536,
        };
        let rates = Rates { schema: 1, interval_ms: 1000, processes: vec![process], connections: vec![connection] };
        let mut terminal = Terminal::new(TestBackend::new(120, 12)).unwrap();
        terminal.draw(|frame| draw(frame, &rates, Order::Traffic)).unwrap();
        let screen = terminal.backend().to_string();
        for text in ["1 programs, 1 connections", "redis-server", "2.0 KiB", "127.0.0.1:40000", "64.0 KiB", "q quit"] {
            assert!(screen.contains(text), "{text} missing in\n{screen}");
        }
    }
}
