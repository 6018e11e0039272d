// An editor of Lua in a shadow root: there its styles are adopted sheets, which the content policy allows.
import {
  autocompletion, bracketMatching, closeBrackets, closeBracketsKeymap, completionKeymap, defaultKeymap, drawSelection,
  EditorState, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSelectionMatches, HighlightStyle,
  history, historyKeymap, indentUnit, indentWithTab, keymap, lineNumbers, lintGutter, lintKeymap, lua, search,
  searchKeymap, setDiagnostics, StreamLanguage, syntaxHighlighting, tags, unifiedMergeView,
} from "./vendor/codemirror.js";

const theme = EditorView.theme({
  "&": { backgroundColor: "var(--sheet)", color: "var(--ink)", fontSize: "0.92rem", maxHeight: "70vh" },
  "&.cm-focused": { outline: "2px solid var(--focus)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5", overflow: "auto", minHeight: "12rem" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--sunk)", color: "var(--quiet)", border: "none" },
  ".cm-activeLine": { backgroundColor: "transparent", boxShadow: "inset 2px 0 var(--focus)" },
  ".cm-activeLineGutter": { backgroundColor: "transparent", color: "var(--ink)", fontWeight: "600" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "light-dark(#cfe2f3, #2f4d63)" },
  ".cm-selectionMatch": { backgroundColor: "var(--mark)" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--mark)", outline: "1px solid var(--quiet)" },
  ".cm-tooltip": { backgroundColor: "var(--sheet)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: "6px", boxShadow: "0 6px 24px #0004" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "#fff" },
  ".cm-completionDetail": { fontStyle: "normal", opacity: "1" },
  ".cm-completionInfo": { maxWidth: "26rem", whiteSpace: "pre-wrap", padding: "0.5rem" },
  ".cm-diagnostic": { padding: "0.2rem 0.6rem", whiteSpace: "pre-wrap" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--critical)" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--warning)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--critical)" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy var(--warning)" },
  ".cm-panels": { backgroundColor: "var(--sunk)", color: "var(--ink)" },
  ".cm-changedLine, .cm-inlineChangedLine": { backgroundColor: "var(--ok-wash) !important" },
  ".cm-deletedChunk": { backgroundColor: "var(--critical-wash) !important", paddingLeft: "6px" },
  ".cm-changedText, .cm-deletedText, .cm-deletedChunk .cm-deletedText": { background: "none !important", textDecoration: "underline" },
  ".cm-collapsedLines": { background: "var(--sunk)", color: "var(--link)" },
});
const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.controlKeyword], color: "light-dark(#7a1fa2, #d3a4f5)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "light-dark(#1a6b3a, #8fd8a8)" },
  { tag: [tags.number, tags.bool, tags.atom, tags.null], color: "light-dark(#9a4a00, #f0b982)" },
  { tag: tags.comment, color: "var(--quiet)", fontStyle: "italic" },
  { tag: [tags.standard(tags.variableName), tags.standard(tags.name)], color: "light-dark(#0b5a83, #8cccf0)" },
]);

// What is typed over a selection is put in here: Chromium would keep its look by a style attribute, which the content
// policy refuses and reports.
const typedOver = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { from, to, empty } = view.state.selection.main;
    if (empty || event.isComposing || event.inputType !== "insertText" || event.data === null || view.state.readOnly) return false;
    const insert = () => view.state.update(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    const isHandled = view.state.facet(EditorView.inputHandler).some((handle) => handle(view, from, to, event.data, insert));
    if (!isHandled) view.dispatch(insert());
    event.preventDefault();
    return true;
  },
});

const looks = () => [
  EditorState.tabSize.of(2), indentUnit.of("  "), lineNumbers(), StreamLanguage.define(lua), syntaxHighlighting(colours),
  theme,
];

function mount(host, extensions, text) {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  root.replaceChildren();
  const parent = document.createElement("div");
  root.append(parent);
  return new EditorView({ root, parent, state: EditorState.create({ doc: text, extensions }) });
}

// complete(text before the cursor) -> {from: characters back, options} or null.
export function makeEditor(host, { text, label, fixed = false, onChange = () => {}, onRun = () => {}, complete = () => null }) {
  const view = mount(host, [
    history(), drawSelection(), bracketMatching(), closeBrackets(), highlightActiveLine(), highlightActiveLineGutter(),
    highlightSelectionMatches(), search({ top: true }), lintGutter(), typedOver, ...looks(),
    autocompletion({ override: [(context) => {
      const line = context.state.doc.lineAt(context.pos);
      const found = complete(line.text.slice(0, context.pos - line.from), context.explicit);
      return found && { from: context.pos - found.back, options: found.options, validFor: /^[\w.]*$/ };
    }] }),
    keymap.of([
      { key: "Mod-Enter", run: () => { onRun(); return true; } },
      ...closeBracketsKeymap, ...completionKeymap, ...searchKeymap, ...historyKeymap, ...lintKeymap, ...defaultKeymap,
      indentWithTab,
    ]),
    EditorView.contentAttributes.of({ "aria-label": label, "aria-multiline": "true", tabindex: "0" }),
    EditorView.updateListener.of((update) => { if (update.docChanged) onChange(); }),
    EditorState.readOnly.of(fixed),
  ], text);
  return {
    view,
    get text() { return view.state.doc.toString(); },
    set text(value) { view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value } }); },
    // problems: [{line, severity, text}]
    mark(problems) {
      const doc = view.state.doc;
      view.dispatch(setDiagnostics(view.state, problems.map(({ line, severity, text: message }) => {
        const { from, to, text: whole } = doc.line(Math.min(Math.max(1, line ?? 1), doc.lines));
        return { from: from + whole.search(/\S|$/), to, severity: severity === "error" ? "error" : "warning", message };
      })));
    },
    jump(line) {
      const place = view.state.doc.line(Math.min(Math.max(1, line), view.state.doc.lines));
      view.dispatch({ selection: { anchor: place.from + place.text.search(/\S|$/) }, effects: EditorView.scrollIntoView(place.from, { y: "center" }) });
      view.focus();
    },
  };
}

// Shows how `text` differs from `before`, with what is equal folded away.
export function showDifference(host, before, text, label) {
  return mount(host, [
    ...looks(), EditorState.readOnly.of(true), EditorView.editable.of(false),
    EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
    unifiedMergeView({ original: before, mergeControls: false, gutter: true, collapseUnchanged: { margin: 3, minSize: 6 } }),
  ], text);
}
