import markdown from '@eslint/markdown';
import stylistic from '@stylistic/eslint-plugin';
import importSort from 'eslint-plugin-simple-import-sort';
import tseslint from 'typescript-eslint';
import { plainEnglish } from './scripts/lint/plain-english.mjs';

export default tseslint.config(
  {
    ignores: [
      'dist',
      'node_modules',
      'site',
      '.tap',
      'test/fixtures',
      'src/core/scene-map/generated',
      'src/client/generated',
    ],
  },
  {
    files: ['**/*.{ts,js,mjs,cjs}'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: {
      parserOptions: {
        projectService: { allowDefaultProject: ['*.js', 'scripts/*.mjs', 'scripts/bundle/*.*js'] },
      },
    },
    plugins: { '@stylistic': stylistic, 'import-sort': importSort },
    rules: {
      'import-sort/imports': ['error', { groups: [['^\\u0000', '^node:', '^@?\\w', '^', '^\\.']] }],
      // Prettier wraps code; nothing else wraps comments.
      '@stylistic/max-len': ['error', { code: Number.MAX_SAFE_INTEGER, comments: 110, ignoreUrls: true }],
      // Numbers in messages are fine; objects are not.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      // `async` without `await` is how a function promises to reject instead of throwing.
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/no-confusing-void-expression': [
        'error',
        { ignoreArrowShorthand: true, ignoreVoidOperator: true },
      ],
      '@typescript-eslint/consistent-type-definitions': ['error', 'interface'],
      '@typescript-eslint/no-unnecessary-condition': [
        'error',
        { allowConstantLoopConditions: 'only-allowed-literals' },
      ],
      '@typescript-eslint/non-nullable-type-assertion-style': 'off',
      'no-console': 'error',
    },
  },
  {
    // A file is a chapter, and a function does one thing.
    files: ['src/**'],
    rules: {
      'max-lines': ['error', 320],
      'max-lines-per-function': [
        'error',
        { max: 60, skipBlankLines: false, skipComments: false, IIFEs: true },
      ],
    },
  },
  {
    files: ['src/**'],
    ignores: ['src/api/console/**', 'src/weather/pages/**'],
    rules: {
      'no-restricted-syntax': [
        'error',
        {
          selector: 'ObjectExpression > SpreadElement > ObjectExpression',
          message: 'Write the properties into the object itself.',
        },
      ],
    },
  },
  // A table that reads best in one piece.
  { files: ['src/core/lib/error-codes.ts'], rules: { 'max-lines': 'off' } },
  {
    files: ['test/**', 'scripts/**', 'bench/**', 'examples/**'],
    rules: {
      'no-console': 'off',
      '@typescript-eslint/no-non-null-assertion': 'off',
      '@typescript-eslint/no-floating-promises': 'off',
    },
  },
  { files: ['**/*.js', '**/*.mjs', '**/*.cjs'], ...tseslint.configs.disableTypeChecked },
  { files: ['**/*.md'], plugins: { markdown }, language: 'markdown/gfm' },
  {
    ignores: ['test/architecture.test.ts', 'scripts/lint/plain-english.mjs', 'docs/reference/**'],
    plugins: { waybill: { rules: { 'plain-english': plainEnglish } } },
    rules: { 'waybill/plain-english': 'error' },
  },
  { files: ['**/*.cjs'], rules: { '@typescript-eslint/no-require-imports': 'off' } },
);
