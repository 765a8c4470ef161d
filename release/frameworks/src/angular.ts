import '@angular/compiler';
import 'zone.js';
import { NgFor, NgIf } from '@angular/common';
import { Component } from '@angular/core';
import { bootstrapApplication } from '@angular/platform-browser';
import { link, load } from './data.js';

@Component({
  selector: '#app',
  standalone: true,
  imports: [NgFor, NgIf],
  template: `<main *ngIf="data; else loading"><h1>{{ data.name }}</h1>
    <a *ngFor="let item of data.items" [href]="link(item)">{{ item.name }}</a></main>
    <ng-template #loading><p>Loading</p></ng-template>`,
})
class App {
  data: any = null;
  link = link;
  constructor() {
    load().then((data) => (this.data = data));
  }
}
bootstrapApplication(App);
