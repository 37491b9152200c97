//! Draws the dashboard.

use super::super::format::{duration, is_fraction, metric, percent, rate};
use super::super::{NoteKind, Progress, Validation};
use super::state::State;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, Gauge, GraphType, Paragraph};

const FAINT: Style = Style::new().fg(Color::DarkGray);
const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
const TRAINING: Color = Color::Cyan;
const HELD_OUT: Color = Color::Yellow;

/// Draws the whole dashboard into the frame.
pub fn draw(frame: &mut Frame<'_>, state: &State) {
    let notes = if frame.area().height >= 24 { 6 } else { 3 };
    let [head, gauge, metrics, charts, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Fill(1),
        Constraint::Length(notes),
    ])
    .areas(frame.area());
    frame.render_widget(headline(state), head);
    if let Some(progress) = &state.progress {
        frame.render_widget(budget(progress), gauge);
    }
    frame.render_widget(numbers(state), metrics);
    draw_charts(frame, state, charts);
    draw_notes(frame, state, foot);
}

fn headline(state: &State) -> Line<'_> {
    let mut line = Line::from(Span::styled(state.title.as_str(), STRONG));
    if let Some(progress) = &state.progress {
        let mut parts = vec![format!("update {}/{}", progress.update, progress.budget)];
        parts.push(format!("{} updates/s", rate(progress.updates_per_second)));
        parts.push(format!("{} so far", duration(progress.seconds)));
        parts.extend(progress.seconds_left.map(|left| format!("{} left", duration(left))));
        line.push_span(format!("  {}", parts.join("  ")));
    }
    line.push_span(Span::styled("  Ctrl-C stops", FAINT));
    line
}

fn budget(progress: &Progress) -> Gauge<'static> {
    Gauge::default()
        .gauge_style(Style::new().fg(TRAINING).bg(Color::Black))
        .use_unicode(true)
        .ratio(progress.fraction())
        .label(percent(progress.fraction()))
}

fn numbers(state: &State) -> Paragraph<'_> {
    let mut training = Line::from(Span::styled("training    ", Style::new().fg(TRAINING)));
    if let Some(progress) = &state.progress {
        push_metric(&mut training, "loss", progress.loss);
        push_metrics(&mut training, &progress.metrics);
        push_metric(&mut training, "gradient norm", progress.gradient_norm);
        push_metric(&mut training, "learning rate", progress.learning_rate);
    }
    let mut held_out = Line::from(Span::styled("validation  ", Style::new().fg(HELD_OUT)));
    let mut result = |name: &str, validation: &Option<Validation>| {
        if let Some(validation) = validation {
            held_out.push_span(Span::styled(format!("{name} at update {}: ", validation.update), FAINT));
            push_metrics(&mut held_out, &validation.metrics);
        }
    };
    result("last", &state.validation);
    result("best", &state.best);
    Paragraph::new(vec![training, held_out])
}

fn push_metrics(line: &mut Line<'_>, metrics: &[(&'static str, f64)]) {
    for (name, value) in metrics {
        push_metric(line, name, *value);
    }
}

fn push_metric(line: &mut Line<'_>, name: &str, value: f64) {
    line.push_span(format!("{name} "));
    line.push_span(Span::styled(format!("{}  ", metric(name, value)), STRONG));
}

fn draw_charts(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let second = state.main_metric();
    let second_name = second.unwrap_or("accuracy");
    let loss = Panel::new("loss", state.loss.points(), state.held_out.points("loss"));
    let main = Panel::new(second_name, state.training.points(second_name), state.held_out.points(second_name));
    let norm = Panel::new("gradient norm", state.gradient_norm.points(), &[]);
    let rate = Panel::new("learning rate", state.learning_rate.points(), &[]);
    // In a low terminal four charts would be too flat to read.
    if area.height < 14 {
        let [left, right] = Layout::horizontal([Constraint::Fill(1); 2]).areas(area);
        loss.draw(frame, left);
        main.draw(frame, right);
        return;
    }
    let [top, bottom] = Layout::vertical([Constraint::Fill(3), Constraint::Fill(2)]).areas(area);
    let [top_left, top_right] = Layout::horizontal([Constraint::Fill(1); 2]).areas(top);
    let [bottom_left, bottom_right] = Layout::horizontal([Constraint::Fill(1); 2]).areas(bottom);
    loss.draw(frame, top_left);
    main.draw(frame, top_right);
    norm.draw(frame, bottom_left);
    rate.draw(frame, bottom_right);
}

/// A chart of a metric in training and on held-out data.
struct Panel<'a> {
    name: &'static str,
    training: &'a [(f64, f64)],
    held_out: &'a [(f64, f64)],
}

impl<'a> Panel<'a> {
    fn new(name: &'static str, training: &'a [(f64, f64)], held_out: &'a [(f64, f64)]) -> Self {
        Self { name, training, held_out }
    }

    fn draw(&self, frame: &mut Frame<'_>, area: Rect) {
        let block = Block::bordered().border_style(FAINT).title(Span::styled(format!(" {} ", self.name), STRONG));
        let all = || self.training.iter().chain(self.held_out);
        let Some(x) = bounds(all().map(|point| point.0)) else {
            frame.render_widget(block, area);
            return;
        };
        let mut y = bounds(all().map(|point| point.1)).unwrap_or([0.0, 1.0]);
        let margin = 0.05 * (y[1] - y[0]);
        y = [y[0] - margin, y[1] + margin];
        if is_fraction(self.name) {
            y = [y[0].max(0.0), y[1].min(1.0)];
        } else if y[0] < 0.0 && all().all(|point| point.1 >= 0.0) {
            y[0] = 0.0;
        }
        let middle = y[0] / 2.0 + y[1] / 2.0;
        let labels = [y[0], middle, y[1]].map(|value| Line::styled(metric(self.name, value), FAINT));
        let updates = x.map(|update| Line::styled(format!("{update:.0}"), FAINT));
        let curve = |data, marker, graph_type, colour| {
            Dataset::default().marker(marker).graph_type(graph_type).style(Style::new().fg(colour)).data(data)
        };
        let curves = vec![
            curve(self.training, Marker::Braille, GraphType::Line, TRAINING),
            curve(self.held_out, Marker::Dot, GraphType::Scatter, HELD_OUT),
        ];
        let chart = Chart::new(curves)
            .block(block)
            .x_axis(Axis::default().style(FAINT).bounds(x).labels(updates))
            .y_axis(Axis::default().style(FAINT).bounds(y).labels(labels))
            // A legend would hide the curves; the lines above the charts have the same colours.
            .legend_position(None);
        frame.render_widget(chart, area);
    }
}

/// The least and the greatest value, apart even if they are the same; `None` without values.
fn bounds(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    let [low, high] = values.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], v| [low.min(v), high.max(v)]);
    if low > high {
        return None;
    }
    if high - low > 1e-9 * high.abs().max(low.abs()) {
        return Some([low, high]);
    }
    let apart = if high == 0.0 { 1.0 } else { 0.1 * high.abs() };
    Some([low - apart, high + apart])
}

fn draw_notes(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let block = Block::bordered().border_style(FAINT).title(Span::styled(" notes ", STRONG));
    let shown = usize::from(block.inner(area).height);
    let from = state.notes.len().saturating_sub(shown);
    let lines: Vec<Line<'_>> = state
        .notes
        .range(from..)
        .map(|(kind, text)| match kind {
            NoteKind::Info => Line::from(text.as_str()),
            NoteKind::Warning => {
                Line::from(vec![Span::styled("warning: ", Style::new().fg(Color::Red)), text.as_str().into()])
            }
        })
        .collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}
