/*
 * An ESLint rule against words that reviewers have often marked as hard to read. It checks comments, strings,
 * and the text in Markdown files. If it finds one, rewrite the whole sentence.
 */

const noun = 'name the thing: a noun instead of "what is …"';

/** Patterns to look for, and what to write instead. */
export const foreignWords = [
  [/\b(who(m|so)?ever|somebody|nobody|everybody)\b/i, 'name the actor: the client, the caller, the operator'],
  [/^[\s*]*who\b/i, 'begin with the actor: "a caller that …"'],
  [/\bwhose turn\b/i, 'name the actor, or write "the next one"'],
  [/\btold\b/i, 'programs report, print, notify or log'],
  [/\bknock(s|ed|ing)?\b/i, 'write "connect" or "request"'],
  [/\bbreath(e|es|ed|ing|less)?\b/i, 'write "yield"'],
  [/(^[\s*]*|[.;:(]\s[\s*]*)what (is|are|was|were|has|have|had|goes|went|came|comes|stands|runs|waits|stays)\b/i, noun],
  [/\b(of|by|from|to|for|with|in|on) (what|whom|that which) (is|are|was|were|has|have|had|goes|came|may)\b/i, noun],
  [/^[\s*]*of (two|several|many)\b/i, 'begin with the subject: "one of two …"'],
  [/\banew\b/i, 'write "again"'],
  [/\bmend(s|ed|ing)?\b/i, 'write "fix"'],
  [/\bput(s|ting)? right\b/i, 'write "fix"'],
  [/\bnot right\b/i, 'write "invalid"'],
  [/\bbeside\b/i, 'write "next to" or "concurrently"'],
  [/\bis no (text|file|directory|path|number|place|name|map)\b/i, 'write "is not a …"'],
  [/\b(that|which) (is|are) none\b/i, 'write "an invalid …" or "that is not a …"'],
  [/\bthat there (is|are) not\b/i, 'write "unknown" or "missing"'],
  [/\bis away\b/i, 'write "is unreachable"'],
  [/\b(is|configured) no more\b/i, 'write "no longer"'],
  [/\bof (no )?use\b/i, 'write "useful" or "unused"'],
  [/\bstands? (still|there|alone|in the way)\b/i, 'write "is stalled", "is in …" or "blocks"'],
  [/\bheld (against|up)\b/i, 'write "compared with" or "delayed"'],
  [/\btaken for\b/i, 'write "counts as" or "is mistaken for"'],
  [/\bvouch(es|ed)?\b/i, 'write "confirm"'],
  [/\bmakes? good\b/i, 'write "repair" or "complete"'],
  [/\bas (many|much) as (there |they )?(may|can)\b/i, 'write "the maximum"'],
  [/\bby then\b/i, 'write "already"'],
  [/\bat hand\b/i, 'write "available"'],
  [/\b(under way|in the midst)\b/i, 'write "running" or "active"'],
  [/\bas ever\b/i, 'write "as before" or "normally"'],
  [/\b(in vain|for want of)\b/i, 'write "without …"'],
  [/\bthe other way round\b/i, 'name the reverse case'],
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
