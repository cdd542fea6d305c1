import type { Rule } from 'eslint';

export const foreignWords: readonly (readonly [RegExp, string])[];
export function remedyFor(text: string): string | null;
export const plainEnglish: Rule.RuleModule;
