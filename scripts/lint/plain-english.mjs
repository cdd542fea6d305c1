/*
 * An ESLint rule against words that reviewers have often marked as hard to read. It checks comments, strings,
 * and the text in Markdown files. If it finds one, rewrite the whole sentence.
 */

/** Patterns to look for, and what to write instead. */
export const foreignWords = [
  [/\b(who(m|so)?ever|somebody|nobody)\b/i, 'name the actor: the client, the caller, the operator'],
  [/\b(is|are|was|were|be|been) told\b/i, 'programs report, print, notify or log'],
  [/\banew\b/i, 'write "again"'],
  [/\bmend(s|ed|ing)?\b/i, 'write "fix"'],
  [/\bbeside\b/i, 'write "next to" or "concurrently"'],
  [/\bis no (text|file|directory|path|number|place|name|map)\b/i, 'write "is not a …"'],
  [/\bis away\b/i, 'write "is unreachable"'],
  [/\bof (no )?use\b/i, 'write "useful" or "unused"'],
];

/** Returns what to write instead of the first match in a text, or null if there is none. */
export function remedyFor(text) {
  return foreignWords.find(([pattern]) => pattern.test(text))?.[1] ?? null;
}

/** @type {import('eslint').Rule.RuleModule} */
export const plainEnglish = {
  meta: { type: 'suggestion', schema: [], messages: { rewrite: 'Rewrite this sentence: {{ remedy }}.' } },
  create(context) {
    const check = (node, text) => {
      const remedy = / /.test(text) ? remedyFor(text) : null;
      if (remedy !== null)
        context.report({ loc: node.loc ?? node.position, messageId: 'rewrite', data: { remedy } });
    };
    return {
      Program: () => context.sourceCode.getAllComments().forEach((comment) => check(comment, comment.value)),
      // In Markdown, this is all text except for code.
      text: (node) => check(node, node.value),
      Literal: (node) => typeof node.value === 'string' && check(node, node.value),
      TemplateElement: (node) => check(node, node.value.raw),
    };
  },
};
