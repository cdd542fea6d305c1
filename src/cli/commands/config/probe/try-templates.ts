import path from 'node:path';
import { WaybillError } from '../../../../core/lib/errors.ts';
import { weatherFamilies } from '../../../../weather/families.ts';
import { missingTemplates } from '../../../../weather/render/text.ts';
import { tryReadableDirectory } from './try-directory.ts';

/** The text templates of the weather reader: there, and what compiles. */
export async function tryTemplates(baseDir: string): Promise<string> {
  const directory = path.resolve(baseDir);
  tryReadableDirectory(directory);
  const names = [...new Set(Object.values(weatherFamilies).map(({ template }) => template))];
  const missing = await missingTemplates(directory, names);
  if (missing.length === names.length)
    throw new WaybillError('storage_not_found', `${directory} holds none of the ${names.length} templates`, {
      hint: 'copy templates/weather of the package there, or leave base_dir out to use those',
    });
  const found = `${names.length - missing.length} of ${names.length} templates are there and compile`;
  const [first] = missing;
  if (first === undefined) return found;
  const others = missing.length === 1 ? '' : ` and ${missing.length - 1} more`;
  return `${found}; format=text is answered with 406 without ${first}.txt.tmpl${others}`;
}
