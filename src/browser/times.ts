/*
 * Pages show times in UTC, as the logs and catalogs do. When the user points at one, it is also shown in
 * local time.
 */
const format = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' });

document.addEventListener('pointerover', ({ target }) => {
  if (!(target instanceof HTMLTimeElement) || target.title !== '') return;
  const moment = new Date(target.dateTime);
  if (!Number.isNaN(moment.getTime())) target.title = format.format(moment);
});

export {};
