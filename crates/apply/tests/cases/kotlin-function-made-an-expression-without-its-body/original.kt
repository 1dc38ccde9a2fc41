class MainViewModel(val repository: WeatherRepository) {

    fun searchWeather(address: String): Completable {
        return repository.getWeather(address).toCompletable()
    }
}
