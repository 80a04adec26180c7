// The program's editor: CodeMirror with keywords of HLO, MLIR and TPU kernels; it underlines errors.
import { EditorView, ViewPlugin, keymap, lineNumbers, highlightActiveLine, drawSelection } from "@codemirror/view";
import { EditorState, StateEffect, StateField } from "@codemirror/state";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { HighlightStyle, StreamLanguage, syntaxHighlighting, bracketMatching } from "@codemirror/language";
import { setDiagnostics, lintGutter, lintKeymap } from "@codemirror/lint";
import { Decoration } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const language = StreamLanguage.define({
  name: "tensor-program",
  token(stream) {
    if (stream.match(/^\/\/.*/)) return "comment";
    if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return "string";
    if (stream.match(/^(?:HloModule|ENTRY|ROOT|module|func\.func|return|kernel|for|if|hbm|vmem|smem|sem|(?:in|start|wait)(?=[ ]))\b/)) return "keyword";
    if (stream.match(/^(?:pred|[su](?:2|4|8|16|32|64)|bf16|f(?:8\w+|16|32|64)|c(?:64|128)|i(?:1|8|16|32|64)|tensor)\b/)) return "typeName";
    if (stream.match(/^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?\b/)) return "number";
    if (stream.match(/^[%@]?[A-Za-z_][\w.-]*(?=\()/)) return "keyword2";
    if (stream.match(/^[%@]?[A-Za-z_][\w.-]*/)) return "variableName";
    stream.next();
    return null;
  },
  tokenTable: { keyword2: tags.function(tags.variableName) },
  languageData: { commentTokens: { line: "//" } },
});
const colours = HighlightStyle.define([
  { tag: tags.comment, color: "var(--soft)", fontStyle: "italic" },
  { tag: tags.keyword, color: "var(--keyword)", fontWeight: "600" },
  { tag: tags.function(tags.variableName), color: "var(--call)" },
  { tag: tags.typeName, color: "var(--type)" },
  { tag: tags.number, color: "var(--number)" },
  { tag: tags.string, color: "var(--type)" },
]);

const markLine = StateEffect.define();
const marked = StateField.define({
  create: () => Decoration.none,
  update(marks, transaction) {
    marks = marks.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (effect.is(markLine)) {
        const line = effect.value;
        marks = line > 0 && line <= transaction.state.doc.lines
          ? Decoration.set([Decoration.line({ class: "marked-line" }).range(transaction.state.doc.line(line).from)])
          : Decoration.none;
      }
    }
    return marks;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** Creates an editor. `onchange` is called with the text after every change. */
export function makeEditor(parent, text, onchange) {
  const extensions = [
    lineNumbers(), history(), drawSelection(), highlightActiveLine(), bracketMatching(), lintGutter(), marked,
    language, syntaxHighlighting(colours),
    keymap.of([...defaultKeymap, ...historyKeymap, ...lintKeymap, indentWithTab]),
    EditorView.contentAttributes.of({ tabindex: "0", "aria-label": "Program text. Press Escape, then Tab, to leave the editor." }),
    // A plugin is called before the change is drawn, so the work it starts runs at the same time.
    ViewPlugin.define(() => ({ update({ docChanged, state }) { if (docChanged) onchange(state.doc.toString()); } })),
  ];
  const view = new EditorView({ parent, state: EditorState.create({ doc: text, extensions }) });
  let shown = 0;
  return {
    view,
    get text() { return view.state.doc.toString(); },
    set text(value) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value }, selection: { anchor: 0 }, scrollIntoView: true });
    },
    /** Underlines problems: `{message, help, from, to, severity}`. */
    show(problems) {
      if (problems.length === 0 && shown === 0) return;
      shown = problems.length;
      const end = view.state.doc.length;
      const diagnostics = problems.map((p) => ({
        from: Math.min(p.from, end), to: Math.min(Math.max(p.to, p.from), end), severity: p.severity ?? "error",
        message: p.help ? `${p.message}\nHelp: ${p.help}` : p.message,
      }));
      view.dispatch(setDiagnostics(view.state, diagnostics));
    },
    /** Marks a line (from 1) and scrolls to it; 0 removes the mark. */
    mark(line, scroll = true) {
      const effects = [markLine.of(line)];
      if (scroll && line > 0 && line <= view.state.doc.lines) {
        effects.push(EditorView.scrollIntoView(view.state.doc.line(line).from, { y: "nearest", yMargin: 40 }));
      }
      view.dispatch({ effects });
    },
  };
}
