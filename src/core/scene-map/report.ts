import type { Finding } from '../lib/errors.ts';
import { findingCodes } from './finding-codes.ts';

/*
 * The report of a check as JSON, SARIF and GitHub annotations.
 */

/** The findings of one document. */
export interface CheckedFile {
  file: string;
  findings: readonly Finding[];
}

export interface SceneMapReport {
  schema_version: 1;
  /** Whether there are no errors. */
  valid: boolean;
  /** Whether there are no findings. */
  clean: boolean;
  files: { file: string; valid: boolean; findings: readonly Finding[] }[];
}

/** The JSON document that the CLI prints and the HTTP API returns. */
export function sceneMapReport(checked: readonly CheckedFile[]): SceneMapReport {
  const files = checked.map(({ file, findings }) => ({
    file,
    valid: !findings.some(({ severity }) => severity === 'error'),
    findings,
  }));
  return {
    schema_version: 1,
    valid: files.every(({ valid }) => valid),
    clean: files.every(({ findings }) => findings.length === 0),
    files,
  };
}

/** A SARIF 2.1.0 log for code scanners. */
export function sarifReport(checked: readonly CheckedFile[]): object {
  const used = [...new Set(checked.flatMap(({ findings }) => findings.map(({ code }) => code)))].sort();
  const about = new Map<string, string>(
    Object.entries(findingCodes).map(([code, entry]) => [code, entry.about]),
  );
  return {
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: {
          driver: {
            name: 'waybill scene-map',
            rules: used.map((id) => ({ id, shortDescription: { text: about.get(id) ?? id } })),
          },
        },
        columnKind: 'utf16CodeUnits',
        results: checked.flatMap(({ findings }) => findings.map(sarifResult)),
      },
    ],
  };
}

function sarifResult({ severity, code, message, file, pointer, line, column }: Finding): object {
  const region =
    line === null ? {} : { region: { startLine: line, ...(column === null ? {} : { startColumn: column }) } };
  const uri = (file ?? '').split('/').map(encodeURIComponent).join('/');
  return {
    ruleId: code,
    level: severity,
    message: { text: message },
    locations: [
      {
        physicalLocation: { artifactLocation: { uri }, ...region },
        ...(pointer === null ? {} : { logicalLocations: [{ fullyQualifiedName: pointer }] }),
      },
    ],
  };
}

/** A GitHub workflow command that adds an annotation at the place of the finding. */
export function githubAnnotation({ severity, code, message, file, line, column, pointer }: Finding): string {
  const properties = { file, line, col: column, title: `scene map: ${code}` };
  const listed = Object.entries(properties)
    .filter(([, value]) => value !== null)
    .map(
      ([name, value]) => `${name}=${escapeData(String(value)).replaceAll(':', '%3A').replaceAll(',', '%2C')}`,
    );
  const place = pointer === null || pointer === '' ? '' : ` (${pointer})`;
  return `::${severity} ${listed.join(',')}::${escapeData(message + place)}`;
}

function escapeData(text: string): string {
  return text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
}
